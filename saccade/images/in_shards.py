"""Images that lie in shards, where a file is asked for (`saccade.places.members`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.images.bad_image import BadImage, blaming
from saccade.places import Copy, fetch_member


@contextmanager
def at_hand(image: Path) -> Iterator[Path | Copy]:
    """The file of an image, taken out of its shard if it lies in one; what is wrong with it is said of `image`."""
    with blaming(image):
        copy = fetch_member(image)
    if copy is None:
        yield image
        return
    try:
        yield copy
    except BadImage as error:
        raise BadImage(image, error.reason, error.fault) from error
