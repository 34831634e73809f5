"""Shards that are worked on elsewhere: given out, lost and given out again, every image has its line once, in order."""

import json
from pathlib import Path
from random import Random

import pytest

from saccade.predict import shard_queue
from saccade.predict.outcomes import Failure
from saccade.predict.shard_queue import Line, ShardQueue, Stretch
from saccade.predict.shards import Facts, ImageList, Shard, finish, join

CLASSES = ["a", "b"]
OUT = Path("out.jsonl")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder is empty, and a worker gets one shard."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shard_queue, "SHARDS_EACH", 1)


def names(count: int) -> list[str]:
    return [f"{number}.png" for number in range(count)]


def open_queue(count: int = 10, *, resumes: bool = True, workers: int = 3) -> ShardQueue:
    images = names(count)
    return ShardQueue(OUT, ImageList.of(images), iter(images), workers=workers, resumes=resumes)


def answer(queue: ShardQueue, stretch: Stretch, at_most: int | None = None) -> int:
    """Lines for the first of its images that have none, all of which are errors; how many there were."""
    with queue.work_on(stretch, CLASSES, False) as task:
        todo = task.names[:at_most]
        task.write([Line(task.writer.form.line(name, Failure("no")), name, "no") for name in todo])
        return task.done


def images_of(path: Path) -> list[str]:
    return [json.loads(line)["image"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_lost_on_the_way_every_image_has_one_line(here, seed):
    chance, held = Random(seed), []
    count = chance.randint(1, 25)
    queue = open_queue(count)
    while not queue.are_whole:
        if stretch := queue.take():
            held.append(stretch)
        stretch = held.pop(chance.randrange(len(held)))
        answer(queue, stretch, chance.randint(0, 4))  # then its worker is lost, if it is not done
        if stretch.shard not in queue.whole:
            queue.put_back(stretch)
        if chance.random() < 0.3:  # all is stopped, and begun again
            queue, held = open_queue(count), []
    assert queue.take() is None
    assert join(OUT) == (count, count)
    assert images_of(OUT) == names(count)
    queue.delete()
    assert [path.name for path in Path().iterdir()] == ["out.jsonl"]


def test_a_part_goes_on_after_its_last_line(here):
    queue = open_queue()
    first = queue.take()
    assert answer(queue, first, 1) == 0
    queue.put_back(first)
    again = queue.take()
    assert again == first._replace(again=True)
    assert answer(queue, again) == 1
    assert queue.whole == {Shard(1, 3)}


def test_lines_of_other_images_are_no_lines_of_a_part(here):
    queue = open_queue()
    wrong = [Line("{}\n", "1.png", None)]
    with pytest.raises(RuntimeError, match="one of 1"), queue.work_on(queue.take(), CLASSES, False) as task:
        task.write(wrong)
    assert not queue.whole


def test_what_jobs_of_an_array_left_is_continued_in_their_division(here):
    answer(open_queue(), Stretch(Shard(2, 5), names(10)[2:4]))
    queue = open_queue()
    assert queue.done == 2
    while stretch := queue.take():
        assert stretch.shard.of == 5
        answer(queue, stretch)
    assert join(OUT) == (10, 10)
    assert images_of(OUT) == names(10)


def test_shards_that_are_there_are_not_overwritten(here):
    answer(open_queue(), Stretch(Shard(2, 5), names(10)[2:4]))
    with pytest.raises(FileExistsError, match=r"out\.2-of-5\.jsonl exists: continue .* with --resume"):
        open_queue(resumes=False)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (Facts(ImageList.of(names(9)), CLASSES, False), "a list of images"),
        (Facts(ImageList.of(names(10)), CLASSES, True), "classes or decisions"),
    ],
)
def test_a_whole_shard_of_something_else_is_refused_before_any_work(here, facts, message):
    Shard(1, 3).file(OUT).touch()
    finish(Shard(1, 3).file(OUT), facts)
    with pytest.raises(ValueError, match=rf"out\.1-of-3\.jsonl was made with {message} other than those given now"):
        open_queue().check(CLASSES, False)


@pytest.mark.parametrize(("count", "workers", "shards"), [(2, 4, 2), (100, 4, 64), (10_000, 4, 64), (100, 1, 16)])
def test_each_worker_gets_several_shards_if_there_are_images(tmp_path, monkeypatch, count, workers, shards):
    monkeypatch.chdir(tmp_path)
    assert len(open_queue(count, workers=workers).shards) == shards
