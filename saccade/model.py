"""The model: its forward is the data's path.

image ─ view ─▶ scorer ─ scores ─▶ selection ─ Selection ─▶ extraction ─ patches ─▶ features ─▶ aggregation ─ pooled ─▶
prediction ─ logits
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from saccade.aggregation import Aggregator, check_together
from saccade.config import ModelConfig
from saccade.extraction import Extraction, Grid, Grids
from saccade.extraction.tissue import on_tissue
from saccade.features import FeatureNetwork
from saccade.images import Sources, View, view_size
from saccade.output import Choice, Output
from saccade.prediction import LinearHead, mixture_of_answers, score_entropy
from saccade.registry import build, build_one, name_of, register
from saccade.scorer import Scorer
from saccade.selection import Selection, Selector, ignore_outside
from saccade.selection.refusals import check_k
from saccade.system import PARTS, System, build_features, outputs_of


@register("system", "patch_selection")
class PatchSelectionModel(System):
    """Classify an image by its K best patches: softly selected in training mode, hard in evaluation mode.

    >>> import torch
    >>> model = PatchSelectionModel.from_config(ModelConfig(num_classes=4, image_size=(300, 400))).eval()
    >>> output = model(torch.rand(2, 3, 300, 400))
    >>> output.logits.shape, output.boxes.shape
    (torch.Size([2, 4]), torch.Size([2, 10, 4]))
    """

    configured = PARTS
    takes_sources = True
    exports_sizes = True
    view: View
    scorer: Scorer
    selection: Selector
    extraction: Extraction
    features: FeatureNetwork
    aggregation: Aggregator
    prediction: Any

    def __init__(
        self,
        *,
        view: View,
        scorer: Scorer,
        selection: Selector,
        extraction: Extraction,
        features: FeatureNetwork,
        aggregation: Aggregator,
        prediction: Callable[[Tensor], Tensor],
        config: ModelConfig | None = None,
    ):
        super().__init__(config)
        check_together(selection, aggregation)
        self.view, self.scorer, self.selection, self.extraction = view, scorer, selection, extraction
        self.features, self.aggregation, self.prediction = features, aggregation, prediction

    @classmethod
    def from_config(cls, config: ModelConfig) -> "PatchSelectionModel":
        """The model of the parts that `config` names."""
        view: View = build_one("view", View, config.view)
        extraction: Extraction = build_one("extraction", Extraction, config.extraction)
        scorer: Scorer = build(
            "scorer",
            config.scorer,
            config.input_channels,
            image_channels=config.channels,
            features=config.features,
            tiles=extraction.tiles,
            sizes=len(extraction.sizes),
        )
        selection: Selector = build("selection", config.selection)
        _check_sizes(extraction.sizes, config.image_size)
        grid = make_grid_of(view, scorer, extraction, config.image_size)
        slots = selection.k or grid.num_candidates
        check_k(slots, grid.num_candidates)
        features: FeatureNetwork = build_features(config, extraction.patch)
        places = {"slots": slots, "cells": grid.shape, "sizes": len(extraction.sizes)}
        aggregation: Aggregator = build("aggregation", config.aggregation, features.width, **places)
        width = aggregation.width + scorer.width
        prediction = build("prediction", config.prediction, width, outputs_of(config))
        return cls(
            view=view,
            scorer=scorer,
            selection=selection,
            extraction=extraction,
            features=features,
            aggregation=aggregation,
            prediction=prediction,
            config=config,
        )

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
        view = self.view(image)  # before the grid: a file may say any size, and its view has a limit
        grid = self.grid(image.shape[-2:], image.device, size)
        if self.view.tissue:
            grid = self.leave_out_glass(grid, view, image.shape[-2:])
        raw_scores, context = self.scorer(view)  # B N, B E
        _check_scores(raw_scores, grid)
        scores = self.selection.normalize(raw_scores)  # B N
        if grid.inside is not None:
            raw_scores, scores = ignore_outside(raw_scores, grid.inside, self.selection.normalize)
        selection = select(scores) if select else self.selection(scores, grid)  # index B S, weight B K S
        patches = self.extraction(image, selection, grid)  # B K C P P
        features = self._read(patches)  # B K D
        pooled = self.aggregation(features, selection, grid)  # B D
        logits = self.prediction(torch.cat([pooled, context], dim=1))
        return Output(logits, raw_scores, scores, selection, grid.boxes(selection.index), grid, features, context)

    def loss(
        self,
        output: Output,
        label: Shaped[Tensor, "B ..."],
        *,
        class_weight: Float[Tensor, "*W"] | None = None,
        entropy_coefficient: float = 0.01,
        mixture_coefficient: float = 0.0,
    ) -> Float[Tensor, ""]:
        """What training makes small: the task's loss, and on request the scores' entropy and what parts say alone.

        entropy_coefficient: how much of the entropy of the raw scores is taken away, as in `selection_loss`.
        mixture_coefficient: how much `mixture_of_answers` counts, where one patch is enough to answer.
        """
        choice = output.choice
        loss = self.task.loss(output.logits, label, class_weight)
        loss = loss - entropy_coefficient * score_entropy(choice.raw_scores)
        if mixture_coefficient:
            loss = loss + mixture_coefficient * self._mixture_loss(choice, label, class_weight)
        return loss

    def evidence(self, output: Output) -> Float[Tensor, "B S L"] | None:
        """What each candidate in the slots adds to each logit.

        With a linear prediction over an aggregation that is a sum over slots (mean, max, attention, concat) that is
        exact: all of them, what the context adds and the bias are the logits. Otherwise it is what each would answer
        alone, without the context; None where it cannot be asked alone.
        """
        choice = output.choice
        gifts = self.aggregation.give(choice.features, choice.selection, choice.grid)  # B K E
        if gifts is not None and isinstance(self.prediction, LinearHead):
            of_slots = gifts @ self.prediction.weight[:, : gifts.shape[2]].T  # B K L
        elif self.aggregation.answers_alone:
            of_slots = self._answer_alone(choice)
        else:
            return None
        return torch.einsum("bks,bkl->bsl", choice.selection.weight.to(of_slots), of_slots)

    def _answer_alone(self, choice: Choice, alone: Tensor | None = None) -> Float[Tensor, "B K L"]:
        """What each slot would answer if there were no other, and no context."""
        if alone is None:
            alone = self.aggregation.alone(choice.features, choice.selection, choice.grid)  # B K E
        no_context = alone.new_zeros(*alone.shape[:2], choice.context.shape[1])
        return self.prediction(torch.cat([alone, no_context], dim=2))

    def _mixture_loss(self, choice: Choice, label: Tensor, class_weight: Tensor | None) -> Tensor:
        if not self.aggregation.answers_alone:
            raise ValueError(
                "mixture_coefficient asks every patch for an answer of its own, and the aggregation "
                f"{name_of(self.aggregation)} knows all slots only together: use another"
            )
        slot_scores = choice.selection.detach().look_up(choice.raw_scores)  # B K
        alone = self.aggregation.alone(choice.features, choice.selection, choice.grid)  # B K D
        slot_scores = slot_scores + self.aggregation.weigh(alone)
        # Alone: what the context explains would otherwise leave nothing for a patch to explain better than another.
        slot_logits = self._answer_alone(choice, alone)  # B K L
        losses = self.task.losses(slot_logits, label[:, None])  # B K parts
        return mixture_of_answers(losses, slot_scores, self.task.weigh(label, class_weight))

    def _read(self, patches: Float[Tensor, "B K C P Q"]) -> Float[Tensor, "B K D"]:
        """Features of the slots."""
        features = self.features(rearrange(patches, "b k c p q -> (b k) c p q"))
        return rearrange(features, "(b k) d -> b k d", b=patches.shape[0])

    def grid(
        self,
        image_size: Sequence[int],
        device: torch.device | str = "cpu",
        size: Int[Tensor, "B 2"] | None = None,
    ) -> Grid | Grids:
        """The candidates of an image of `image_size` (height, width), or of a batch padded to it from each `size`."""
        grid = make_grid_of(self.view, self.scorer, self.extraction, image_size, device)
        return grid if size is None else grid.padded(size)

    def leave_out_glass(
        self, grid: Grid | Grids, view: Float[Tensor, "B C h w"], image_size: Sequence[int]
    ) -> Grid | Grids:
        """The candidates that show tissue; all of them where every one is looked at."""
        if self.selection.k is None:
            return grid
        return on_tissue(grid, view[:, :3], (image_size[0], image_size[1]), k=self.selection.k)


def make_grid_of(
    view: View, scorer: Scorer, extraction: Extraction, image_size: Sequence[int], device: torch.device | str = "cpu"
) -> Grid | Grids:
    """The candidates of an image of `image_size` (height, width): where a score of its view has its patch."""
    height, width = image_size
    return extraction.grid((height, width), view_size((height, width), view.scale), scorer.field, device)


def _check_sizes(sizes: Sequence[tuple[int, int]], image_size: tuple[int, int]) -> None:
    for height, width in sizes:
        if height > image_size[0] or width > image_size[1]:
            too_large = f"a patch of {height}×{width} px is larger than the image of {image_size[0]}×{image_size[1]} px"
            raise ValueError(f"{too_large}: choose a smaller patch, or use the plain network (system cnn)")


def _check_scores(raw_scores: Float[Tensor, "B N"], grid: Grid | Grids) -> None:
    """A graph has no numbers to compare."""
    if not torch.compiler.is_compiling() and raw_scores.shape[1] != grid.num_candidates:
        raise ValueError(
            f"the scorer gives {raw_scores.shape[1]} scores, and there are {grid.num_candidates} candidates: one for "
            "each cell, of each size in extraction.sizes (a scorer is told how many by its parameter sizes)"
        )
