"""What a model says of an image does not depend on the batch it came in, and every column is what it says it is."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel
from saccade.data.dataset import collate
from saccade.data.sample import Sample
from saccade.evaluation import Predictions, best_overlap, predict_batch
from saccade.evaluation.predictions import join
from saccade.images import unit_range
from saccade.output import Output
from saccade.selection import Selection
from saccade.system import System

SIZES = [(20, 30), (32, 16), (20, 30), (24, 24), (32, 16), (17, 41)]


class Stub(System):
    """Answers with means over the image, which padding would change; looks at two corners."""

    def __init__(self):
        super().__init__(ModelConfig(num_classes=3, image_size=(32, 32)))

    def forward(self, image: Tensor) -> Output:
        height, width = image.shape[-2:]
        mean = image.mean(dim=(2, 3))  # B 3
        boxes = torch.tensor([[0, 0, 8, 6], [width - 8, height - 6, width, height]]).expand(len(image), 2, 4)
        raw_scores = torch.stack([mean[:, 0], mean[:, 1], 0 * mean[:, 0]], dim=1)
        return Output(mean, raw_scores=raw_scores, boxes=boxes)


class Blind(Stub):
    """A system that selects nothing."""

    def forward(self, image: Tensor) -> Output:
        return Output(image.mean(dim=(2, 3)))


def make_samples():
    generator = torch.Generator().manual_seed(0)
    return [
        Sample(
            torch.randint(256, (3, *size), generator=generator).byte(),
            number % 3,
            torch.tensor([[0, 0, 4, 4], [2, 1, 12, 9]])[: number % 3],
            10 + number,
        )
        for number, size in enumerate(SIZES)
    ]


def assert_same(one: Predictions, other: Predictions):
    for name in Predictions._fields:
        assert_close(getattr(one, name), getattr(other, name), equal_nan=True, msg=lambda text, name=name: name + text)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]])
def test_answers_do_not_depend_on_the_batch(order):
    samples = make_samples()
    together = predict_batch(Stub(), collate([samples[n] for n in order], multiple_px=16))
    alone = join([predict_batch(Stub(), collate([sample])) for sample in samples])
    assert_same(together, alone)
    assert together.index.tolist() == [10, 11, 12, 13, 14, 15]


def test_every_column_is_what_it_says():
    for sample in make_samples():
        row = predict_batch(Stub(), collate([sample], multiple_px=16))
        image = unit_range(sample.image[None])[0]
        output = Stub()(image[None])
        assert_close(row.logits[0], image.mean(dim=(1, 2)))
        assert (row.label.item(), row.index.item()) == (sample.label, sample.index)
        p = torch.softmax(output.raw_scores[0].double(), dim=0).numpy()
        assert row.entropy.item() == pytest.approx(stats.entropy(p) / np.log(3), rel=1e-5)
        height, width = image.shape[-2:]
        assert_close(row.centers[0], torch.tensor([[4 / width, 3 / height], [1 - 4 / width, 1 - 3 / height]]))
        overlaps = best_overlap(output.boxes[0], sample.boxes)
        assert_close(row.overlap[0], overlaps.mean(), equal_nan=True)
        assert_close(row.hit[0], (overlaps >= 0.9).float().mean(), equal_nan=True)
        assert row.hit.isnan().item() == (len(sample.boxes) == 0)


def test_candidates_that_are_in_no_slot_were_not_looked_at():
    class Soft(Stub):
        def forward(self, image):
            index = torch.tensor([[0, 2]]).expand(len(image), 2)
            selection = Selection(index, torch.tensor([[[1.0, 0.0]]]).expand(len(image), 1, 2))
            return super().forward(image)._replace(selection=selection)  # the second box is there to fill up

    sample = make_samples()[0]._replace(boxes=torch.tensor([[22, 14, 30, 20]]))  # where the second box is
    assert predict_batch(Stub(), collate([sample])).hit.item() == 1
    row = predict_batch(Soft(), collate([sample]))
    assert (row.hit.item(), row.overlap.item()) == (0, 0)
    assert row.mutual_overlap.isnan().item()  # one patch alone
    assert row.centers.isnan().any(dim=-1).tolist() == [[False, True]]


def test_entropy_runs_from_sure_to_equal():
    class Fixed(Stub):
        def forward(self, image):
            return super().forward(image)._replace(raw_scores=torch.tensor([[0.0] * 9, [200.0] + [0.0] * 8]))

    batch = collate([make_samples()[n] for n in (0, 2)])
    assert_close(predict_batch(Fixed(), batch).entropy, torch.tensor([1.0, 0.0]))


def test_a_system_that_selects_nothing_has_no_places():
    row = predict_batch(Blind(), collate(make_samples()))
    assert row.centers.shape == (6, 0, 2)
    assert row.hit.isnan().all()
    assert row.entropy.isnan().all()


def test_a_system_that_looks_without_scoring_has_places_and_no_entropy():
    class Glimpses(Stub):
        def forward(self, image):
            return super().forward(image)._replace(raw_scores=None)

    batch = collate(make_samples())
    row, expected = predict_batch(Glimpses(), batch), predict_batch(Stub(), batch)
    assert row.entropy.isnan().all()
    assert_same(row, expected._replace(entropy=row.entropy))


def test_the_real_model_on_images_of_different_sizes():
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=3,
        image_size=(32, 32),
        view={"scale": 1 / 2},
        scorer={"name": "conv", "pool": 2},
        selection={"name": "perturbed", "k": 2},
        extraction={"patch": 8},
        features={"name": "ats", "width": 8},
    )
    model, samples = PatchSelectionModel.from_config(config).eval(), make_samples()
    together = predict_batch(model, collate(samples, multiple_px=2))
    assert_same(together, join([predict_batch(model, collate([sample])) for sample in samples]))
    assert together.centers.shape == (6, 2, 2)
