"""A file behind a URL, through fsspec: every request has a time limit, and is tried again a few times if it fails.

What fails for good (no such file, credentials that are refused, a missing package) is not tried again. Either way the
end is one `UnreachableError`, in one line.
"""

import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from saccade.files import shown, told

ATTEMPTS = 4
WAIT_S = 0.5  # before the second attempt; each further one waits twice as long
REQUEST_S = 60.0  # for a request of at most PIECE_BYTES, so 70 kB a second
STREAM_S = 600.0  # for a whole file of a server that knows no ranges
PIECE_BYTES = 2**22

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
# What names a version, in the words of the different services.
_VERSION = ("ETag", "etag", "LastModified", "Last-Modified", "mtime", "generation", "blob_id", "Content-MD5", "size")
_FINAL_STATUS = range(400, 500)
_AGAIN_STATUS = (408, 425, 429)

_MISSING = "no such file or folder"

T = TypeVar("T")


class UnreachableError(OSError):
    """Something behind a URL that could not be had: `reason` says why, in one line."""

    def __init__(self, url: str, reason: str):
        super().__init__(f"{shown(url)}: {reason}")
        self.url, self.reason = url, reason

    @property
    def missing(self) -> bool:
        """Whether the service says that there is no such thing."""
        return self.reason == _MISSING

    def __reduce__(self):
        return type(self), (self.url, self.reason)


def is_url(place: object) -> bool:
    """Whether a text names something behind a URL. A `Path` never does.

    >>> is_url("s3://bucket/a.jpg"), is_url("photos/a.jpg"), is_url("C://a.jpg")
    (True, False, False)
    """
    return isinstance(place, str) and _URL.match(place) is not None


def name_of(url: str) -> str:
    """The last part of a URL's path.

    >>> name_of("https://example.org/a/b.jpg?signed=1")
    'b.jpg'
    """
    return posixpath.basename(urlsplit(url).path.rstrip("/"))


def url_within(folder: str, name: str) -> str:
    """The URL of a file that is named relative to a folder, and lies in it.

    >>> url_within("s3://bucket/photos/", "a/1.jpg")
    's3://bucket/photos/a/1.jpg'
    """
    path = posixpath.normpath(name)
    if path.startswith(("/", "../")) or path in (".", ".."):
        raise ValueError(f"{shown(name)} leads out of {shown(folder)}: give names relative to it, or whole URLs")
    parts = urlsplit(folder)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))


def parent_of(url: str) -> str:
    """The folder of a file."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=posixpath.dirname(parts.path), query="", fragment=""))


def find_files(url: str) -> list[str]:
    """The URLs of all files in a folder, at any depth, by name; hidden ones left out."""

    def find() -> list[str]:
        files, folder = _open(url)
        found = _walk(files, folder.rstrip("/") + "/") if _is_http(url) else files.find(folder)
        urls = [files.unstrip_protocol(path) for path in found]
        if not urls and not files.exists(folder):
            raise FileNotFoundError(folder)
        return sorted(each for each in urls if not _is_hidden(each.removeprefix(url)))

    return insist(url, find)


def _walk(files: Any, folder: str) -> Iterator[str]:
    """Below a page of links, only what lies in it: links lead anywhere."""
    for entry in files.ls(folder, detail=True):
        name = entry["name"]
        if name.startswith(folder) and name != folder and not urlsplit(name).query:
            yield from _walk(files, name) if name.endswith("/") else (name,)


def is_folder(url: str) -> bool:
    """Whether it holds files; of http, what ends in a slash."""
    if url.lower().startswith(("http://", "https://")):
        return urlsplit(url).path.endswith("/")

    def ask() -> bool:
        files, path = _open(url)
        return files.isdir(path)

    return insist(url, ask)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


class RemoteFile:
    """A file behind a URL. It travels as the URL."""

    def __init__(self, url: str):
        self.url = url
        self._handle: tuple[int, Any] | None = None

    def __reduce__(self):
        return RemoteFile, (self.url,)

    @cached_property
    def _info(self) -> dict[str, Any]:
        def ask() -> dict[str, Any]:
            files, path = _open(self.url)
            info = files.info(path)
            if info.get("type") == "directory":
                raise UnreachableError(self.url, "a folder, expected a file")
            return info

        return insist(self.url, ask)

    @property
    def size(self) -> int | None:
        """In bytes, where the server says so."""
        return self._info.get("size")

    @cached_property
    def key(self) -> str:
        """A name for this version of this file."""
        version = [str(self._info[word]) for word in _VERSION if self._info.get(word) is not None]
        return sha256("\0".join([self.url, *version]).encode()).hexdigest()[:40]

    @cached_property
    def ranged(self) -> bool:
        """Whether parts of it can be asked for."""
        if not self.size or self.size < 2 or self._info.get("partial") is False:
            return False
        try:  # some servers only say that they can
            return len(self.read(self.size - 1, self.size)) == 1
        except UnreachableError:
            return False

    def read(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end` of a file that is `ranged`."""
        return b"".join(self._piece(at, min(at + PIECE_BYTES, end)) for at in range(start, end, PIECE_BYTES))

    def _piece(self, start: int, end: int) -> bytes:
        def ask() -> bytes:
            handle = self._opened()
            handle.seek(start)
            data = handle.read(end - start)
            if len(data) != end - start:
                raise OSError(f"{len(data)} bytes came, expected {end - start}")
            return data

        return insist(self.url, ask)

    def _opened(self) -> Any:
        # What a fork shares would be read by two processes from one line.
        if self._handle is None or self._handle[0] != os.getpid():
            files, path = _open(self.url)
            self._handle = os.getpid(), files.open(path, "rb", cache_type="none", size=self.size)
        return self._handle[1]

    def stream(self) -> Iterator[bytes]:
        """All of it from begin to end, in one request."""
        files, path = _open(self.url, stream=True)
        with files.open(path, "rb", block_size=0) if _is_http(self.url) else files.open(path, "rb") as file:
            while piece := file.read(2**20):
                yield piece


def _is_http(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _open(url: str, *, stream: bool = False) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it. Asked for anew each time: after a fork it is another one."""
    import fsspec.core

    scheme = urlsplit(url).scheme.lower()
    if "::" in url:
        raise UnreachableError(url, "chained URLs are not followed: give the URL of a file or folder")
    try:
        return fsspec.core.url_to_fs(url, **_OPTIONS.get(scheme, _no_options)(stream))
    except ImportError:
        package = _PACKAGES.get(scheme, "what fsspec names for it")
        raise UnreachableError(
            url, f"{scheme}:// needs a package that is not there: pip install {package}, or 'saccade[remote]'"
        ) from None
    except ValueError as error:  # a scheme that nobody knows
        raise UnreachableError(url, told(error)) from None


def _no_options(stream: bool) -> dict[str, Any]:
    return {}


def _http_options(stream: bool) -> dict[str, Any]:
    import aiohttp

    seconds = STREAM_S if stream else REQUEST_S
    return {"client_kwargs": {"timeout": aiohttp.ClientTimeout(total=seconds, sock_read=REQUEST_S)}}


def _s3_options(stream: bool) -> dict[str, Any]:
    seconds = STREAM_S if stream else REQUEST_S
    return {"config_kwargs": {"connect_timeout": REQUEST_S, "read_timeout": seconds, "retries": {"max_attempts": 1}}}


_OPTIONS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "http": _http_options,
    "https": _http_options,
    "s3": _s3_options,
    "s3a": _s3_options,
}


def insist(url: str, ask: Callable[[], T]) -> T:
    """What `ask` gives, tried again where that may help; else why not."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return ask()
        except UnreachableError:
            raise
        except Exception as raised:  # each service has its own
            error = _cause(raised)
            if reason := _final(error):
                raise UnreachableError(url, reason) from error
            if attempt == ATTEMPTS:
                raise UnreachableError(url, f"{_explain(error)}, {ATTEMPTS} times in a row") from error
            time.sleep(WAIT_S * 2 ** (attempt - 1))
    raise AssertionError("every attempt has returned or raised")


def _cause(error: Exception) -> Exception:
    """fsspec says of http that there is no such file, whatever has happened."""
    cause = error.__cause__
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) else error


def _final(error: Exception) -> str | None:
    """Why it is no use to ask again, if so."""
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return _MISSING
    if isinstance(error, PermissionError) or status in (401, 403):
        return f"refused ({told(error) if status is None else status}): check the credentials, and what they allow"
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return f"no credentials ({told(error)})"
    if isinstance(status, int) and status in _FINAL_STATUS and status not in _AGAIN_STATUS:
        return f"the server answers {status}"
    return None


def _explain(error: Exception) -> str:
    status = getattr(error, "status", None)
    if isinstance(status, int) and status:
        return f"the server answers {status}"
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return f"no answer within {REQUEST_S:g} s"
    return f"the connection failed ({told(error)})"
