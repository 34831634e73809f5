"""Defaults fit the images and one another: checked on the models they build, for real sets and strange ones."""

import json
import math
import random
import socket
import threading
import time
from collections.abc import Sequence
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from saccade import ModelConfig
from saccade.building import build_model
from saccade.data.loading import load
from saccade.data.records import DataError, Record, Records
from saccade.images import header_sizes
from saccade.training.defaults import probe, propose, sample_sizes, weights_within_reach
from saccade.training.recipe import Optimizer, Recipe, parse_recipe


def records_with(counts: Sequence[int] = (60, 40), boxes: tuple = ()) -> Records:
    """A set with these many training images per class, and one to validate on."""
    labels = [str(number) for number, count in enumerate(counts) for _ in range(count)]
    records = [Record(Path(f"{i}.png"), label, "train", boxes) for i, label in enumerate(labels)]
    classes = tuple(map(str, range(len(counts))))
    return Records(Path("set"), classes, (*records, Record(Path("v.png"), "0", "val")))


def choose(seen, given: dict[str, Any] | None = None, *, records: Records | None = None, hub: bool = False):
    """The chosen values by key; the hub is there or not, and never asked."""
    choices = propose(records or records_with(), seen=seen, given=given or {}, within_reach=lambda model: hub)
    assert all(choice.reason for choice in choices)
    assert len({choice.key for choice in choices}) == len(choices)
    return {choice.key: choice.value for choice in choices}


def recipe_of(values: dict[str, Any]) -> Recipe:
    """The recipe with these values, by dotted key, over the defaults."""
    return parse_recipe([f"--{key}={v if isinstance(v, str) else json.dumps(v)}" for key, v in sorted(values.items())])


def assert_good(values: dict[str, Any], seen: Sequence[tuple[int, int]]) -> None:
    """What every set of defaults must fulfil, by the model it builds."""
    recipe = recipe_of(values)
    recipe.check_together()
    patch, k = recipe.model.extraction["patch"], recipe.model.selection["k"]
    assert patch[0] % 8 == 0
    assert patch[0] <= min(map(min, seen))
    model: Any = build_model(ModelConfig(num_classes=2, image_size=seen[0], **vars(recipe.model)))
    for size in set(seen):
        grid = model.grid(size)
        assert grid.num_candidates >= 4 * k
        steps = [*grid.top_px.diff().tolist(), *grid.left_px.diff().tolist()]
        # Views are whole pixels, so strides differ a little from pool / scale.
        assert max(steps, default=0) <= 1.1 * patch[0] / 2


# ---- real sets


@pytest.mark.parametrize(
    ("name", "patch", "weighted"), [("kolektor", 64, True), ("speed_limits", 64, False), ("cub_sparrows", 32, False)]
)
def test_real_sets(shared_data, name, patch, weighted):
    records = load(shared_data / name)
    seen = sample_sizes(records)
    values = choose(seen, records=records)
    assert_good(values, seen)
    assert values["model.extraction.patch"] == [patch, patch]
    assert values["model.selection.k"] == 10
    assert ("training.evenly" in values) == weighted
    assert values.get("best_by", "accuracy") == ("balanced_accuracy" if weighted else "accuracy")
    assert 500 <= values["steps"] <= 1000
    assert ("model.preparation.resize" in values) == (name != "speed_limits")


WEIGHTS = {"model.features.weights": "somewhere/tf_efficientnet_lite0.safetensors"}


@pytest.mark.parametrize(
    ("name", "sizes"), [("kolektor", [128, 96]), ("speed_limits", [192, 128]), ("cub_sparrows", [64])]
)
def test_real_sets_with_weights(shared_data, name, sizes):
    """A view of 50,000 px, candidates at most half a patch apart, and tuning on trial, since few images would judge."""
    records = load(shared_data / name)
    seen = sample_sizes(records)
    values = choose(seen, WEIGHTS, records=records)
    assert values["model.extraction.patch"] == [sizes[0], sizes[0]]
    assert values.get("training.patch_sizes", [sizes[0]]) == sizes
    assert values["model.selection.k"] == 5
    height, width = sorted(seen, key=math.prod)[len(seen) // 2]
    assert height * width * values["model.view.scale"] ** 2 == pytest.approx(50_000, rel=0.02)
    assert 8 / values["model.view.scale"] <= min(sizes) / 2
    assert (values["training.name"], values["training.frozen"], values["training.trial"]) == ("tuned", True, True)
    assert values["steps"] >= 500
    assert values["batch"] * (50_000 + 5 * sizes[0] ** 2) <= 2_000_000  # what a tuned network keeps in memory


def test_what_reads_is_tuned_where_enough_images_can_judge():
    many = records_with((600, 600))
    judged = many._replace(records=(*many.records, *[Record(Path(f"v{n}.png"), "1", "val") for n in range(99)]))
    alone = choose([(1000, 1000)], WEIGHTS, records=judged)
    assert alone["steps"] > 0
    assert "training.trial" not in alone
    tried = choose([(1000, 1000)], WEIGHTS, records=many)
    assert tried["steps"] > 0
    assert tried["training.trial"]
    few = choose([(1000, 1000)], WEIGHTS, records=records_with((45, 44)))
    assert few["steps"] == 0
    assert "training.trial" not in few


def test_boxes_have_no_say(shared_data):
    records = load(shared_data / "speed_limits")
    assert any(record.boxes for record in records.records)
    without = records._replace(records=tuple(record._replace(boxes=()) for record in records.records))
    seen = sample_sizes(records)
    assert choose(seen, records=records) == choose(sample_sizes(without), records=without)


# ---- strange sets


@pytest.mark.parametrize(
    "size", [(28, 28), (64, 64), (100, 300), (256, 256), (960, 1280), (500, 8000), (8000, 500), (4000, 6000)]
)
def test_images_of_any_size_get_a_grid_that_fits(size):
    values = choose([size] * 5)
    assert_good(values, [size] * 5)
    looked_at = values["model.selection.k"] * math.prod(values["model.extraction.patch"])
    assert looked_at <= 0.26 * math.prod(size)


@pytest.mark.parametrize(
    ("size", "patch", "scale"),
    [((336, 448), 56, 1 / 3), ((256, 256), 40, 1 / 3), ((750, 750), 64, 1 / 4), ((1500, 1500), 64, 1 / 8)],
)
def test_generated_sets_get_what_they_were_tried_with(size, patch, scale):
    values = choose([size])
    assert (values["model.extraction.patch"], values["model.view.scale"]) == ([patch, patch], scale)


def test_random_sizes_fit():
    draw = random.Random(0)
    for _ in range(40):
        center = [math.exp(draw.uniform(math.log(40), math.log(3000))) for _ in "hw"]
        seen = [(int(draw.uniform(0.7, 1.4) * center[0]), int(draw.uniform(0.7, 1.4) * center[1])) for _ in range(5)]
        assert_good(choose(seen), seen)


@pytest.mark.parametrize("odd", [(20, 20), (9000, 9000)])
def test_a_single_odd_image_changes_no_geometry_and_is_named(odd):
    alone, together = choose([(1000, 1000)] * 99), choose([(1000, 1000)] * 99 + [odd])
    for key in ("model.extraction.patch", "model.selection.k", "model.view.scale"):
        assert alone[key] == together[key]
    choices = propose(records_with(), seen=[(1000, 1000)] * 99 + [odd], given={}, within_reach=lambda model: False)
    reason = next(choice.reason for choice in choices if choice.key == "model.preparation.resize")
    assert f"far from the rest, and without a say in patch, K and view: {odd[0]}×{odd[1]};" in reason
    assert together["batch"] * max(math.prod(odd), 1000**2) <= 100e6  # padded to the largest it must fit into memory


def test_several_stray_thumbnails_change_no_geometry():
    alone, together = choose([(1000, 1000)] * 80), choose([(1000, 1000)] * 80 + [(20, 20), (12, 30)] * 8)
    for key in ("model.extraction.patch", "model.selection.k", "model.view.scale"):
        assert alone[key] == together[key]


def test_many_small_images_are_no_oddity():
    seen = [(1000, 1000)] * 60 + [(100, 100)] * 40
    assert_good(choose(seen), seen)


# ---- what the user gave


def test_given_values_stay_and_others_follow():
    assert "model.extraction.patch" not in choose([(1000, 1000)], {"model.extraction.patch": 64})
    assert choose([(1000, 1000)], {"model.extraction.patch": [250, 200]})["model.selection.k"] == 5
    assert choose([(1000, 1000)], {"model.extraction": {"patch": 500}})["model.selection.k"] == 1
    assert choose([(1000, 1000)], {"batch": 4})["steps"] == 1500
    assert choose([(1000, 1000)], {"model.preparation.resize": (256, 256)}) == choose([(256, 256)])
    assert choose([(1000, 1000)], {"training.label_free.steps": 0})["training.name"] == "guided_by_scores"
    assert "training.name" not in choose([(1000, 1000)], {"training.name": "paper"})
    assert "model.aggregation" not in choose([(1000, 1000)], {"model.aggregation.name": "mean"})


def test_several_sizes_are_read_at_the_smallest_and_the_scorer_sees_the_largest():
    sizes = {"model.extraction.sizes": [64, 200, [64, 128]]}
    values = choose([(1000, 1000)], sizes)
    small = choose([(1000, 1000)], {"model.extraction.patch": 64})
    assert values["model.extraction.patch"] == [64, 64]
    assert values["model.scorer.pool"] / values["model.view.scale"] <= 64 / 2
    assert (values["model.scorer.pool"] + 8) / values["model.view.scale"] >= 200
    assert (small["model.scorer.pool"] + 8) / small["model.view.scale"] < 200
    assert values["model.selection.k"] == 6  # of 200×200 px in a quarter of the image
    assert values["training.label_free.focus"] == 2
    assert "training.label_free.focus" not in small
    assert "model.extraction.patch" not in choose([(1000, 1000)], {**sizes, "model.extraction.patch": 96})
    with pytest.raises(ValueError, match="patch is 64×1001 px, larger than the images of 1000×1000 px"):
        choose([(1000, 1000)], {"model.extraction.sizes": [64, [64, 1001]]})


def test_a_network_that_already_reads_starts_otherwise_than_a_new_one():
    new, reads = choose([(1000, 1000)]), choose([(1000, 1000)], WEIGHTS)
    assert new["training.name"] == "guided_by_scores"
    assert new["model.aggregation"]["name"] == "transformer"
    assert "training.frozen" not in new
    assert recipe_of(new).plan.label_free > 0
    assert reads["model.features"]["name"] == "cells"
    assert reads["model.scorer"] == {"name": "backbone", "glance": True}
    assert recipe_of({**reads, **WEIGHTS}).training.frozen


def test_parts_of_one_s_own_leave_the_frozen_start_out():
    values = choose([(1000, 1000)], {**WEIGHTS, "model.aggregation.name": "mean"})
    assert "training.frozen" not in values
    assert values["training.name"] == "guided_by_scores"


def test_small_patches_on_large_images_get_finer_pooling_rather_than_a_huge_view():
    values = choose([(2000, 3000)], {"model.extraction.patch": 32})
    assert (values["model.view.scale"], values["model.scorer.pool"]) == (1 / 4, 4)


def test_a_given_scale_is_met_by_pooling():
    assert choose([(1000, 1000)], {"model.view.scale": 0.1})["model.scorer.pool"] == 4
    assert "model.scorer.pool" not in choose([(1000, 1000)], {"model.view.scale": 0.3})


def test_a_scorer_made_of_a_backbone_is_met_by_the_scale():
    values = choose([(1000, 1000)], {"model.scorer.name": "backbone", "model.scorer.stride": 16})
    assert 16 / values["model.view.scale"] <= min(values["model.extraction.patch"]) / 2
    assert "model.scorer.pool" not in values


def test_given_processes_share_the_batch():
    assert choose([(1000, 1000)], {"devices": 3, "nodes": 2})["batch"] == 12


def test_more_patches_than_candidates_is_refused_with_a_number_that_fits():
    with pytest.raises(ValueError, match=r"k is 500 and images of 64×64 px have only 256 candidates .*: pass --k 256"):
        choose([(64, 64)], {"model.selection.k": 500})
    with pytest.raises(ValueError, match=r"k is 10 and images of 960×1280 px have only 4 .* pass --k 4 or less"):
        choose([(960, 1280)], {"model.selection.k": 10, "model.view.scale": 1 / 160, "model.scorer.pool": 4})
    assert_good({**choose([(64, 64)], {"model.selection.k": 60}), "model.selection.k": 60}, [(64, 64)])


@pytest.mark.parametrize("patch", [1000, [64, 1281]])
def test_a_patch_larger_than_the_image_is_refused(patch):
    with pytest.raises(ValueError, match=r"larger than the images of 960×1280 px: pass --patch with at most 960"):
        choose([(960, 1280)], {"model.extraction.patch": patch})


def test_a_system_without_selection_is_asked_no_questions_about_it():
    values = choose([(1000, 1000)], {"model.system": "cnn"})
    assert not {"model.extraction.patch", "model.selection.k", "model.scorer.pool", "training.name"} & set(values)


# ---- features, balance, length


def test_published_weights_are_used_where_they_can_be_had():
    values = choose([(1000, 1000)], hub=True)
    assert values["model.features"] == {"name": "cells", "model": "tf_efficientnet_lite0", "pretrained": True}
    assert values["optimizer.lr"] < Optimizer().lr
    assert choose([(1000, 1000)])["optimizer.lr"] > values["optimizer.lr"]


def test_without_weights_the_network_is_thin():
    assert choose([(1000, 1000)])["model.features"] == {"name": "thin"}
    named = choose([(1000, 1000)], {"model.features": {"name": "backbone", "model": "resnet18"}})
    assert named["model.features"] == {"name": "backbone", "model": "resnet18"}


def test_a_file_of_weights_names_its_network():
    given = {"model.features.weights": "somewhere/tf_efficientnet_lite0.safetensors"}
    assert choose([(256, 256)], given)["model.features"] == {
        "name": "cells",
        "model": "tf_efficientnet_lite0",
        "weights": "somewhere/tf_efficientnet_lite0.safetensors",
    }
    with pytest.raises(ValueError, match=r"mine\.safetensors: which network .* --model\.features\.model"):
        choose([(256, 256)], {"model.features.weights": "mine.safetensors"})
    named = {"model.features.weights": "mine.safetensors", "model.features.model": "resnet50"}
    assert choose([(256, 256)], named)["model.features"]["model"] == "resnet50"
    assert "model.features" not in choose([(1000, 1000)], {"model.features": {"name": "ats", "width": 64}})


@pytest.mark.parametrize(("counts", "weighted"), [((30, 10), False), ((31, 10), True), ((90, 60, 20), True)])
def test_classes_weigh_the_same_where_their_sizes_differ_much(counts, weighted):
    values = choose([(1000, 1000)], records=records_with(counts))
    assert (values.get("training.evenly"), values.get("best_by")) == (
        (0.5, "balanced_accuracy") if weighted else (None,) * 2
    )
    assert "training.evenly" not in choose([(1000, 1000)], {"class_weights": True}, records=records_with(counts))


@pytest.mark.parametrize(
    ("count", "batch", "steps"), [(4, 1, 500), (40, 8, 500), (1000, 16, 3800), (20_000, 16, 20_000)]
)
def test_length_follows_the_number_of_images(count, batch, steps):
    values = choose([(500, 500)], records=records_with((count // 2, count // 2)))
    assert (values["batch"], values["steps"]) == (batch, steps)


# ---- headers


@pytest.fixture
def files(tmp_path) -> dict[str, tuple[int, int]]:
    """Image files of several kinds, and the size of each upright picture."""
    sideways = Image.Exif()
    sideways[0x0112] = 6
    Image.new("RGB", (40, 30)).save(tmp_path / "plain.jpg")
    Image.new("RGB", (40, 30)).save(tmp_path / "turned.jpg", exif=sideways)
    Image.new("RGB", (40, 30)).save(tmp_path / "turned.png", exif=sideways)
    Image.new("L", (40, 30)).save(tmp_path / "gray.webp")
    tifffile.imwrite(tmp_path / "deep.tif", np.zeros((30, 40, 3), np.float64), photometric="rgb")
    sizes = dict.fromkeys(("plain.jpg", "gray.webp", "deep.tif"), (30, 40))
    return sizes | {"turned.jpg": (40, 30), "turned.png": (40, 30)}


def records_of(paths: Sequence[Path]) -> Records:
    return Records(paths[0].parent, ("a",), tuple(Record(path, "a", "train") for path in paths))


def test_sizes_are_those_of_upright_pictures(files, tmp_path):
    for name, size in files.items():
        assert sample_sizes(records_of([tmp_path / name])) == [size]


def test_pixels_are_not_decoded(tmp_path):
    """A file cut off behind its header still has a size."""
    for name in ("a.png", "a.jpg"):
        Image.effect_noise((400, 300), 90).save(tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:2000])
    assert sample_sizes(records_of([tmp_path / "a.png", tmp_path / "a.jpg"])) == [(300, 400)] * 2


def test_slides_have_a_size(shared_data):
    paths = sorted((shared_data / "slides").iterdir())
    assert set(sample_sizes(records_of(paths))) == {(2967, 2220), (901, 1493), (3567, 4443)}


def test_a_slide_s_size_is_that_of_its_first_level_whatever_pillow_sees(tmp_path, monkeypatch):
    """A .mrxs is a small JPEG beside the folder that has the pixels."""
    Image.new("RGB", (40, 30)).save(tmp_path / "a.mrxs", "JPEG")
    assert sample_sizes(records_of([tmp_path / "a.mrxs"])) == [(30, 40)]
    monkeypatch.setattr(header_sizes, "open_pyramid", lambda path: SimpleNamespace(sizes=((9000, 8000), (900, 800))))
    assert sample_sizes(records_of([tmp_path / "a.mrxs"])) == [(9000, 8000)]


def test_unreadable_files_are_left_out_unless_all_are(files, tmp_path):
    (tmp_path / "bad.png").write_text("no image")
    (tmp_path / "bad.tif").write_bytes(b"II*\0 nothing behind")
    bad = [tmp_path / "bad.png", tmp_path / "bad.tif", tmp_path / "missing.jpg"]
    assert sample_sizes(records_of([*bad, tmp_path / "plain.jpg"])) == [(30, 40)]
    with pytest.raises(DataError, match=r"none of 3 images can be read; `saccade data check"):
        sample_sizes(records_of(bad))


def test_a_sample_comes_from_the_whole_set_and_is_always_the_same(tmp_path):
    paths = [tmp_path / f"{width:03}.png" for width in range(1, 101)]
    for width, path in enumerate(paths, start=1):
        Image.new("L", (width, 1)).save(path)
    sizes = sample_sizes(records_of(paths), 20)
    assert len(set(sizes)) == 20
    assert min(sizes)[1] < 25
    assert max(sizes)[1] > 75
    assert sizes == sample_sizes(records_of(paths), 20)


# ---- the hub


def test_a_hub_that_never_answers_costs_two_seconds():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert not probe._answers(f"http://127.0.0.1:{silent.getsockname()[1]}/model")
    assert time.monotonic() - start < 3


def test_a_closed_door_is_known_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    start = time.monotonic()
    assert not probe._answers(f"http://127.0.0.1:{port}/model")
    assert time.monotonic() - start < 1


def test_a_hub_that_answers_is_heard():
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert probe._answers(f"http://127.0.0.1:{server.server_port}/")


def test_weights_are_within_reach_if_cached_or_if_the_hub_answers(monkeypatch):
    asked = []
    monkeypatch.setattr(probe, "_answers", lambda url: asked.append(url) or True)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, file: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert weights_within_reach("resnet18")
    assert asked[0].endswith("timm/resnet18.a1_in1k/resolve/main/model.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not weights_within_reach("resnet18")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, file: f"/cache/{repo}/{file}")
    assert weights_within_reach("resnet18")
    assert len(asked) == 1


def test_slides_are_read_in_parts():
    chosen = choose([(20_000, 20_000)])
    assert chosen["model.preparation.stream"] is True
    assert chosen["batch"] > 1
    assert chosen["training.label_free.focus"] == 2
    assert "data.augmentation" not in chosen
    assert choose([(20_000, 20_000), (20_000, 30_000)])["batch"] == 1  # a batch of sources is of one size
    assert not {"model.preparation.stream", "training.label_free.focus"} & choose([(4000, 6000)]).keys()
    assert "model.preparation.stream" not in choose(
        [(1000, 1000)] * 99 + [(20_000, 20_000)]
    )  # which is more likely a mistake
    assert "model.preparation.stream" not in choose(
        [(20_000, 20_000)], {"model": {"preparation": {"resize": [1000, 1000]}}}
    )
