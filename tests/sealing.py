"""Models that somebody changed on purpose, for tests of what they say then."""

from pathlib import Path

from saccade.model_files import BLANK, _reckon


def seal(folder: Path) -> None:
    """Give a changed model the checksum it would have if it had been saved so."""
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    checksum, place = _reckon((folder / "config.json").read_bytes(), content)
    if place >= 0:
        weights.write_bytes(content[:place] + checksum + content[place + len(BLANK) :])
