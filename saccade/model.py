"""The model: its forward is the data's path.

image ─ view ─▶ scorer ─ scores ─▶ selection ─ Selection ─▶ extraction ─ patches ─▶ features ─▶ aggregation ─ pooled ─▶
prediction ─ logits
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from saccade.aggregation import AGGREGATIONS, Concat, Placed
from saccade.config import ModelConfig, build, build_one, refuse_options
from saccade.extraction import Extraction, Grid
from saccade.features import build_features
from saccade.images import Sources, View, glance, view_size
from saccade.prediction import HEADS, mixture_loss, selection_loss
from saccade.scorer import SCORERS, attend
from saccade.selection import SELECTIONS, Selection, ignore_outside
from saccade.selection.refusals import check_k, check_together
from saccade.system import System


class Output(NamedTuple):
    """What the model says and where it looked.

    raw_scores are the scorer's own, scores those normalized per image; boxes are left, top, right, bottom in image
    pixels of the candidates in `selection.index` (of a hard selection exactly the K patches that were looked at);
    features are those of the K slots; context is what was seen of the whole image beside them, by the scorer in its
    view and by the feature network at a glance (of width 0 where neither looks); grid has all candidates.
    """

    logits: Float[Tensor, "B L"]
    raw_scores: Float[Tensor, "B N"]
    scores: Float[Tensor, "B N"]
    selection: Selection
    boxes: Int[Tensor, "B S 4"]
    features: Float[Tensor, "B K D"]
    context: Float[Tensor, "B E"]
    grid: Grid


class PatchSelectionModel(System):
    """Classify an image by its K best patches: softly selected in training mode, hard in evaluation mode.

    >>> import torch
    >>> model = PatchSelectionModel(ModelConfig(num_classes=4, image_size=(300, 400))).eval()
    >>> output = model(torch.rand(2, 3, 300, 400))
    >>> output.logits.shape, output.boxes.shape
    (torch.Size([2, 4]), torch.Size([2, 10, 4]))
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        refuse_options(config)
        self.config = config
        self.view = build_one("view", View, config.view)
        self.extraction = build_one("extraction", Extraction, config.extraction)
        self.scorer = build(
            "scorer",
            SCORERS,
            config.scorer,
            config.input_channels,
            image_channels=config.channels,
            features=config.features,
            tiles=self.extraction.tiles,
        )
        grid = self.grid(config.image_size)
        self.selection = build("selection", SELECTIONS, config.selection)
        self._check_patch(config.image_size)
        slots = getattr(self.selection, "k", grid.num_candidates)
        check_k(slots, grid.num_candidates)
        self.features = build_features(config, self.extraction.patch)
        self.aggregation = build(
            "aggregation",
            AGGREGATIONS,
            config.aggregation,
            self.features.width,
            slots=slots,
            cells=grid.shape,
        )
        check_together(self.selection, config.selection["name"], config.aggregation["name"], AGGREGATIONS)
        width = self.aggregation.width + self.scorer.width + self.features.width * self.extraction.glance
        self.prediction = build("prediction", HEADS, config.prediction, width, config.num_classes)

    def forward(
        self,
        image: Float[Tensor, "B C H W"] | Sources,
        size: Int[Tensor, "B 2"] | None = None,
        *,
        select: Callable[[Tensor], Selection] | None = None,
    ) -> Output:
        """Logits of each image, with the scores, selection and boxes behind them.

        image:  pixels, or `Sources` of images too large for memory, of which only the view and the patches are read.
        size:   height and width of each image where the rest of its H×W is padding, which is then never chosen.
        select: scores → Selection instead of the model's own, for this call. What lies in padding scores 100 less
                than the rest.
        """
        self.check_images(image)
        image = self.with_positions(image, size)
        grid = self.grid(image.shape[-2:], image.device, size)
        raw_scores, evidence = self.scorer(self.view(image))  # B N, B N E
        scores = self.selection.normalize(raw_scores)  # B N
        if grid.inside is not None:
            raw_scores, scores = ignore_outside(raw_scores, grid.inside, self.selection.normalize)
        selection = select(scores) if select else self.selection(scores, grid)  # index B S, weight B K S
        patches = self.extraction(image, selection, grid)  # B K C P P
        features, glanced = self._read(patches, image, size)  # B K D, B D or B 0
        context = torch.cat([attend(raw_scores, evidence), glanced], dim=1)
        pooled = self.aggregation(features, selection, grid)  # B D
        logits = self.prediction(torch.cat([pooled, context], dim=1))
        return Output(logits, raw_scores, scores, selection, grid.boxes(selection.index), features, context, grid)

    def loss(
        self,
        output: Output,
        label: Int[Tensor, " B"],
        *,
        class_weight: Float[Tensor, " L"] | None = None,
        entropy_coefficient: float = 0.01,
        mixture_coefficient: float = 0.0,
        context_coefficient: float = 0.0,
    ) -> Float[Tensor, ""]:
        """What training makes small: `selection_loss`, and on request what parts of the model say alone.

        mixture_coefficient: how much `mixture_loss` counts, where one patch is enough to answer.
        context_coefficient: how much the answer without any patch counts: cross-entropy of the context alone.
        """
        loss = selection_loss(
            output.logits, label, output.raw_scores, entropy_coefficient=entropy_coefficient, class_weight=class_weight
        )
        if mixture_coefficient:
            loss = loss + mixture_coefficient * self._mixture_loss(output, label, class_weight)
        if context_coefficient:
            loss = loss + context_coefficient * self._context_loss(output, label, class_weight)
        return loss

    def _mixture_loss(self, output: Output, label: Tensor, class_weight: Tensor | None) -> Tensor:
        if isinstance(self.aggregation, Concat):
            raise ValueError(
                "mixture_coefficient asks every patch for an answer of its own, and concat knows all slots only "
                "together: use another aggregation"
            )
        slot_scores = output.selection.detach().look_up(output.raw_scores)  # B K
        alone = self.aggregation.alone(output.features, output.selection, output.grid)  # B K D
        if isinstance(self.aggregation, Placed):  # what a patch shows and where may matter beside its score
            slot_scores = slot_scores + self.aggregation.weigh(alone)
        # Alone: what the context explains would otherwise leave nothing for a patch to explain better than another.
        no_context = alone.new_zeros(*alone.shape[:2], output.context.shape[1])
        slot_logits = self.prediction(torch.cat([alone, no_context], dim=2))  # B K L
        return mixture_loss(slot_logits, slot_scores, label, class_weight=class_weight)

    def _context_loss(self, output: Output, label: Tensor, class_weight: Tensor | None) -> Tensor:
        if not output.context.shape[1]:
            raise ValueError(
                "context_coefficient asks for an answer without patches, and nothing else is seen of the image: use "
                "the scorer backbone or extraction.glance"
            )
        no_patch = output.context.new_zeros(len(label), self.aggregation.width)
        return F.cross_entropy(
            self.prediction(torch.cat([no_patch, output.context], dim=1)), label, weight=class_weight
        )

    def _read(
        self, patches: Float[Tensor, "B K C P Q"], image: Float[Tensor, "B C H W"] | Sources, size: Tensor | None
    ) -> tuple[Float[Tensor, "B K D"], Float[Tensor, "B E"]]:
        """Features of the slots and, where the extraction asks for a glance, of the whole image at a patch's size."""
        slots = patches.shape[1]
        if self.extraction.glance:  # in one batch: batch norm must see in training what it will see in evaluation
            patches = torch.cat([patches, glance(image, self.extraction.patch, size)[:, None]], dim=1)
        features = self.features(rearrange(patches, "b k c p q -> (b k) c p q"))
        features = rearrange(features, "(b k) d -> b k d", b=image.shape[0])
        return features[:, :slots], features[:, slots:].flatten(1)

    def _check_patch(self, image_size: Sequence[int]) -> None:
        if any(patch > side for patch, side in zip(self.extraction.patch, image_size, strict=True)):
            patch, image = ("×".join(map(str, sides)) for sides in (self.extraction.patch, image_size))
            raise ValueError(
                f"a patch of {patch} px is larger than the image of {image} px: choose a smaller patch, or use the "
                "plain network (system cnn)"
            )

    def grid(
        self,
        image_size: Sequence[int],
        device: torch.device | str = "cpu",
        size: Int[Tensor, "B 2"] | None = None,
    ) -> Grid:
        """The candidates of an image of `image_size` (height, width), or of a batch padded to it from each `size`."""
        height, width = image_size
        seen = view_size((height, width), self.view.scale)
        grid = self.extraction.grid((height, width), seen, self.scorer.field, device)
        return grid if size is None else grid.padded(size)
