"""`model.safetensors`: the weights of a model, and a checksum of them and of the `config.json` beside them.

    sha256(config.json ‖ model.safetensors with 64 zeros where the checksum is to be)

It stands in the header of the weights, so that it changes in the same moment as they do: a process that is killed while
it saves leaves two files that belong together. Weights without a checksum are refused: just that may be damaged.
"""

import re
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from saccade.files import no_room, told

BLANK = b"0" * 64
CHECKSUM = re.compile(rb'"sha256":"([0-9a-f]{64})"')
HEADER = 2**20  # bytes in which the checksum is: metadata come first


def save_weights(model: nn.Module, path: Path, config: Path) -> None:
    """Write the weights of `model`, which go with the file `config`, with the permissions of that one."""
    try:
        save_model(model, str(path), {"sha256": BLANK.decode()})
    except SafetensorError as error:
        raise no_room(path.with_suffix(""), error) from error
    write_checksum(path, config)


def write_checksum(path: Path, config: Path) -> None:
    """Say of weights that they go with the file `config`, and give them its permissions."""
    path.chmod(config.stat().st_mode)  # safetensors lets nobody else read them
    checksum, place = _reckon(config.read_bytes(), path.read_bytes())
    with path.open("r+b") as file:
        file.seek(place)
        file.write(checksum)


def check_model_files(config: Path, weights: Path) -> None:
    """Refuse files that are not, byte for byte, what was saved together."""
    content = weights.read_bytes()
    checksum, place = _reckon(config.read_bytes(), content)
    if place < 0:
        raise ValueError(
            f"{weights} has no checksum, so nobody can tell whether it is damaged: copy it anew; if it was not made by "
            "save_pretrained, load it into saccade.build_model(config) and save that"
        )
    if content[place : place + len(BLANK)] != checksum:
        raise ValueError(
            f"{weights} or the {config.name} beside it is damaged or was changed (the checksum is another): copy both "
            "anew, or train again; if it was changed on purpose, build the model anew and save it"
        )


def load_weights(model: nn.Module, path: Path) -> None:
    """Give `model` the weights in a file that was checked."""
    try:
        load_model(model, str(path))
    except Exception as error:
        raise ValueError(
            f"the weights in {path} do not fit the config beside it ({told(error)}): were they written by another "
            "version of Saccade? Use that one, or train again"
        ) from error


def _reckon(config: bytes, weights: bytes) -> tuple[bytes, int]:
    """The checksum that the files should have, and the place of the one they have; -1 if there is none."""
    found = CHECKSUM.search(weights[:HEADER])
    if found is None:
        return b"", -1
    place, view, checksum = found.start(1), memoryview(weights), sha256(config)
    for part in (view[:place], BLANK, view[place + len(BLANK) :]):
        checksum.update(part)
    return checksum.hexdigest().encode(), place
