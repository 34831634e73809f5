"""The tiny model, saved once."""

from pathlib import Path

import pytest
from served import save_tiny_model

from saccade.predict import Predictor


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def predictor(model_folder: Path) -> Predictor:
    return Predictor(model_folder, device="cpu")
