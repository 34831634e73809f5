"""What can be found out before training without much waiting: sizes of images, and whether weights can be fetched."""

import random
import threading
import urllib.request
from http.client import HTTPException
from typing import Any

from saccade.data.records import DataError, Records
from saccade.images.header_sizes import upright_size

TIMEOUT_S = 2.0


def sample_sizes(records: Records, count: int = 200, *, mpp: float | None = None) -> list[tuple[int, int]]:
    """Height and width of up to `count` images of a set, drawn from all of it, by their headers alone.

    mpp: microns per pixel at which slides are seen.

    A file whose header cannot be read is left out: the one who reads all pixels will say what is wrong with it.
    """
    paths = [record.image for record in records.records]
    drawn = random.Random(0).sample(paths, min(count, len(paths)))
    sizes = [size for path in drawn if (size := upright_size(path, mpp))]
    if not sizes:
        raise DataError(
            f"{records.root}: none of {len(drawn)} images can be read; `saccade data check {records.root}` says why"
        )
    return sizes


def refuse_too_small(records: Records, model: Any) -> None:
    """Name the images in which `model` has too few places to choose from: it would stop at the first of them."""
    slots = getattr(model.selection, "k", None)
    if slots is None or not hasattr(model, "grid") or model.config.preparation.resize:
        return
    mpp = model.config.preparation.mpp
    sizes = {record.image: upright_size(record.image, mpp) for record in records.records}
    room = {size: _candidates(model, size) for size in {*sizes.values()} if size}
    small = [(image, size) for image, size in sizes.items() if size and room[size] < slots]
    if small:
        named = ", ".join(f"{image} ({size[0]}×{size[1]} px)" for image, size in small[:3])
        more = f" and {len(small) - 3:,} more" if len(small) > 3 else ""
        raise DataError(
            f"{named}{more}: too small, since a model with this patch and view needs {slots} places to choose from; "
            "leave out what is a mistake, or give all images one size with --resize"
        )


def _candidates(model: Any, size: tuple[int, int]) -> int:
    try:
        return model.grid(size).num_candidates
    except ValueError:  # the view is smaller than what a score looks at
        return 0


def weights_within_reach(model: str) -> bool:
    """Whether the weights timm publishes for `model` are in the hub's cache, or the hub answers within two seconds."""
    import timm
    from huggingface_hub import hf_hub_url, try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_OFFLINE

    published = timm.get_pretrained_cfg(model, allow_unregistered=True)
    if published is None or not published.hf_hub_id:
        return False
    file = "model.safetensors"
    if isinstance(try_to_load_from_cache(published.hf_hub_id, file), str):
        return True
    return not HF_HUB_OFFLINE and _answers(hf_hub_url(published.hf_hub_id, file))


def _answers(url: str) -> bool:
    """Whether a URL answers within `TIMEOUT_S`."""
    found = threading.Event()

    def ask() -> None:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT_S):
                found.set()
        except (OSError, ValueError, HTTPException):
            return

    # In a thread of its own, since looking up a name may hang for long and obeys no timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return found.is_set()
