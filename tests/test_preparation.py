"""What happens to an image before the model sees it: the same in training, evaluation and prediction, and undone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms.v2 import CenterCrop

from saccade import ModelConfig, Preparation, build_model, load_model

SIDES = st.integers(20, 200)


@given(st.tuples(SIDES, SIDES), st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_the_center_is_torchvision_s(size, crop):
    image = torch.rand(1, 3, *size)
    assert torch.equal(Preparation(crop=crop).see(image), CenterCrop(crop)(image))


@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES))
def test_the_whole_of_what_was_seen_is_the_whole_image(size, resize):
    preparation = Preparation(resize=resize)
    whole = np.array([[0, 0, resize[1], resize[0]]])
    assert preparation.place_back(whole, size).tolist() == [[0, 0, size[1], size[0]]]
    assert preparation.seen_size(size) == resize


def test_a_saved_model_brings_its_preparation(tmp_path):
    preparation = Preparation(resize=(40, 50), crop=(32, 32), max_pixels=10**6)
    config = ModelConfig(system="cnn", num_classes=2, image_size=(32, 32), preparation=preparation)
    build_model(config).save_pretrained(tmp_path)
    assert load_model(tmp_path).config.preparation == preparation


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"resize": [0, 5]}, "resize is .*at least one pixel"),
        ({"resize": 5}, "resize is 5, expected a list of 2 whole numbers or null"),
        ({"resise": [5, 5]}, "no option 'resise'"),
        ({"crop": [8, 8], "resize": [4, 9]}, "larger than what is left"),
        ({"stream": True, "resize": [4, 4]}, "stream reads parts"),
        ({"max_pixels": 0}, "max_pixels is 0"),
    ],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        Preparation.from_tree(options)


def test_an_image_smaller_than_the_crop_is_refused():
    with pytest.raises(ValueError, match="no 8×8 part fits into an image of 6×9 px"):
        Preparation(crop=(8, 8)).see(torch.rand(1, 3, 6, 9))
