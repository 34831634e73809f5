"""Models on a hub in the manner of Hugging Face's (HF_ENDPOINT says which): fetched by name, and sent there.

A hub name is OWNER/MODEL, or OWNER/MODEL@REVISION for a branch, tag or commit. What is fetched lies in the hub's own
cache (HF_HOME), which is also asked where there is no connection. Files are asked for by name, and nothing else of a
repository comes here: weights are safetensors, and no code is among what is asked for.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.files import told
from saccade.places.remote import UnreachableError

SCHEME = "hf://"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
_NO_COPY = "cannot be reached, and there is no whole copy in its cache here"


def is_hub_name(place: object) -> bool:
    """Whether a text names a model on the hub: OWNER/MODEL where no such file or folder is. A `Path` never does.

    >>> is_hub_name("timm/resnet18.a1_in1k"), is_hub_name("./runs/signs"), is_hub_name("my/weights.safetensors")
    (True, False, False)
    """
    is_file = isinstance(place, str) and (place.endswith(".safetensors") or Path(place).exists())
    return isinstance(place, str) and _NAME.fullmatch(place) is not None and not is_file


def hub_name_of(url: str) -> str | None:
    """The name in a URL of a whole model.

    >>> hub_name_of("hf://birds/marks"), hub_name_of("hf://birds/marks/best"), hub_name_of("s3://birds/marks")
    ('birds/marks', None, None)
    """
    name = url.removeprefix(SCHEME).rstrip("/")
    return name if url.startswith(SCHEME) and _NAME.fullmatch(name) else None


def fetch_from_hub(name: str, files: Sequence[str]) -> Path:
    """Those of `files` (names, or patterns of names) that the model has, of one revision, in a folder of the cache."""
    from huggingface_hub import snapshot_download

    model, _, revision = name.partition("@")
    with _in_one_line(name):
        folder = Path(snapshot_download(model, revision=revision or None, allow_patterns=list(files)))
    if not any(path for pattern in files for path in folder.glob(pattern)):
        raise UnreachableError(name, f"this model on the hub has none of the files {', '.join(files)}")
    return folder


def find_here(place: str | Path, files: Sequence[str]) -> Path:
    """A folder that is here, or `files` of the model on the hub that `place` names."""
    return fetch_from_hub(place, files) if isinstance(place, str) and is_hub_name(place) else Path(place)


def send_to_hub(folder: Path, name: str, files: Sequence[str], *, message: str, private: bool | None = None) -> str:
    """Send those of `files` that the folder has to the hub, as one commit, and return where people find them.

    private: whether only the owner sees it, if it is new (default: as the hub does).
    """
    from huggingface_hub import HfApi

    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a model on the hub: expected OWNER/MODEL, such as birds/marks")
    model, _, revision = name.partition("@")
    api: Any = HfApi()
    with _in_one_line(name):
        where = api.create_repo(model, private=private, exist_ok=True)
        options = {"revision": revision or None, "allow_patterns": list(files), "commit_message": message}
        api.upload_folder(repo_id=where.repo_id, folder_path=folder, **options)
    return str(where)


@contextmanager
def _in_one_line(name: str) -> Iterator[None]:
    """Whatever goes wrong between here and the hub."""
    try:
        yield
    except Exception as error:
        raise UnreachableError(name, _explain(error)) from error


def _explain(error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        LocalTokenNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    hub, status = constants.ENDPOINT, getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, GatedRepoError):
        return f"{hub} gives it only to those who asked: do so on its page, then `hf auth login`"
    if isinstance(error, RepositoryNotFoundError) or status in (401, 403):
        return f"no such folder here, and {hub} has no such model, or shows it only to others: `hf auth login`"
    if isinstance(error, RevisionNotFoundError):
        return f"{hub} has this model, but not this revision"
    if isinstance(error, LocalTokenNotFoundError):
        return f"{hub} wants to know who asks: `hf auth login`"
    if isinstance(error, LocalEntryNotFoundError):
        return f"no such folder here, and {hub} {_NO_COPY} ({_root(error)})"
    return f"{hub} could not be asked ({_root(error)})"


def _root(error: BaseException) -> str:
    """The first of the errors behind one another: it says what happened."""
    while (cause := error.__cause__) is not None:
        error = cause
    return told(error)[:160] if isinstance(error, Exception) else str(error)
