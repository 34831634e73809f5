"""Many images: in order, in groups of one size, in bounded memory, whatever fails."""

from collections.abc import Sequence
from itertools import count, islice

import pytest
import torch

from saccade.looking import Look
from saccade.predict import Failure, Prediction, Predictor
from saccade.predict import stream as stream_module
from saccade.predict.reading import ReadImage
from saccade.predict.stream import LOOK_AHEAD, Loaded, answer_in_order


def loaded(name: str, side: int) -> Loaded:
    return Loaded(name, ReadImage(torch.zeros(3, side, side, dtype=torch.uint8), (side, side), 0.0))


class Model:
    """Remembers what it was asked together."""

    def __init__(self):
        self.groups: list[list[int]] = []

    def __call__(self, images: Sequence[ReadImage]) -> list[Prediction]:
        self.groups.append([image.size[0] for image in images])
        return [Prediction(str(image.size), {}, Look(image.size), 0.0) for image in images]


def test_sizes_go_together_and_answers_keep_their_order():
    sides = [1, 2, 1, 2, 1, 3, 1, 2, 1]
    model = Model()
    answers = list(answer_in_order(model, [loaded(str(n), side) for n, side in enumerate(sides)], batch=3))
    told = [(path, answer.label, answer.size) for path, answer in answers if isinstance(answer, Prediction)]
    assert told == [(str(n), str((side, side)), (side, side)) for n, side in enumerate(sides)]
    assert model.groups == [[1, 1, 1], [2, 2, 2], [3], [1, 1]]


def test_an_image_does_not_wait_for_ever_for_others_of_its_size():
    model = Model()
    images = (loaded(str(n), 1 if n == 0 else 2 + n % 7) for n in count())
    taken = list(islice(answer_in_order(model, images, batch=4), 100))  # which would not end otherwise
    assert [path for path, _ in taken] == [str(n) for n in range(100)]
    assert model.groups[0] == [1] or [1] in model.groups[: LOOK_AHEAD * 4]


def test_only_a_few_images_are_held():
    asked = []

    def images():
        for number in range(1000):
            asked.append(number)
            yield loaded(str(number), 1 + number % 50)

    for done, (path, _) in enumerate(answer_in_order(Model(), images(), batch=2)):
        assert path == str(done)
        assert len(asked) - done <= LOOK_AHEAD * 2 + 1


def test_large_images_go_alone(monkeypatch):
    monkeypatch.setattr(stream_module, "GROUP_PX", 100)
    model = Model()
    list(answer_in_order(model, [loaded(str(n), side) for n, side in enumerate([10, 5, 5, 10, 5, 5])], batch=4))
    assert model.groups == [[10], [10], [5, 5, 5, 5]]


def test_late_images_are_answered(monkeypatch):
    monkeypatch.setattr(stream_module, "PATIENCE_S", -1.0)
    model = Model()
    list(answer_in_order(model, [loaded(str(n), 5) for n in range(3)], batch=4))
    assert model.groups == [[5], [5], [5]]


def test_what_fails_together_is_tried_alone():
    def answer(images: Sequence[ReadImage]) -> list[Prediction]:
        if len(images) > 1 or images[0].milliseconds == 1.0:
            raise RuntimeError("out of memory\n  at line 3")
        return Model()(images)

    images = [loaded(str(n), 5) for n in range(3)]
    images[1] = images[1]._replace(image=images[1].image._replace(milliseconds=1.0))  # type: ignore[union-attr]
    found = [answer for _, answer in answer_in_order(answer, images, batch=4)]
    assert [isinstance(answer, Failure) for answer in found] == [False, True, False]
    assert found[1] == Failure("out of memory at line 3")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_gives_the_answers_of_single_images(run, spots, workers):
    predictor = Predictor(run, device="cpu")
    paths = sorted((spots / "images").iterdir())
    paths[3:3] = [spots / "gone.png"]
    found = list(predictor.stream(iter(paths), batch=3, workers=workers))
    assert [path for path, _ in found] == paths
    for path, answer in found:
        if path == spots / "gone.png":
            assert answer == Failure("no such file")
            continue
        alone = predictor(path)
        assert isinstance(answer, Prediction)
        assert (answer.label, answer.size) == (alone.label, alone.size)
        assert [box[:4] for box in answer.boxes] == [box[:4] for box in alone.boxes]
        torch.testing.assert_close([*answer.probabilities.values()], [*alone.probabilities.values()])


def test_paths_are_asked_for_as_they_are_needed(run, spots):
    path = spots / "images" / "000.png"
    endless = (path for _ in count())
    stream = Predictor(run, device="cpu").stream(endless, batch=2, workers=1)
    assert len(list(islice(stream, 30))) == 30
    stream.close()  # type: ignore[attr-defined]
