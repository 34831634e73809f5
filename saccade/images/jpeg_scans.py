"""What a JPEG's markers say before anything is decoded: how many scans it has.

A JPEG in several scans makes the decoder hold every coefficient of the picture, and go over all of them once per scan.
Half a megabyte may name thousands of scans, minutes of work, where a real progressive JPEG has about ten.
"""

import mmap
from pathlib import Path
from typing import NamedTuple

MAX_SCANS = 100

_START_OF_SCAN = b"\xff\xda"
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # SOF0 … SOF15, without the tables among them
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}


class Scans(NamedTuple):
    """Scans of a JPEG, counted up to one more than `MAX_SCANS`, and the channels it holds until the last of them."""

    count: int
    held_channels: int


def count_scans(path: Path) -> Scans:
    """Walk the segments to the first scan, then look for the others; no coefficient is decoded."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place, channels, progressive = 2, 3, False
        while place + 10 < len(data) and data[place] == 0xFF and data[place : place + 2] != _START_OF_SCAN:
            marker = data[place + 1]
            if marker in _FRAMES:
                channels, progressive = data[place + 9], marker in _PROGRESSIVE
            # Before any marker there may be fill bytes.
            place += 1 if marker == 0xFF else 2 + int.from_bytes(data[place + 2 : place + 4])
        begin = place = max(data.find(_START_OF_SCAN, place), 0)
        in_scan = data[begin + 4] if begin + 4 < len(data) else channels
        if not progressive and in_scan >= channels:
            return Scans(1, 0)  # whatever follows, the decoder is done after the first
        count = 0
        # Inside a scan 0xFF is always followed by something else, so that this finds scans alone.
        while count <= MAX_SCANS and (place := data.find(_START_OF_SCAN, place) + 2) > 1:
            count += 1
    return Scans(count, channels)
