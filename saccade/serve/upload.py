"""A request's body → one file on disk, stopped as soon as it is too large or too slow.

What the client says of its length is believed only where it refuses itself. The client's file name is a word to echo,
never a path.
"""

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

from fastapi import HTTPException, Request
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect
from starlette.types import Message

from saccade.serve.limits import UPLOAD_WINDOW_S, Deadline, Limits

ENVELOPE_BYTES = 16_384  # boundaries and headers around the file
NAME_LETTERS = 200


class Upload(NamedTuple):
    """A file of ours with the client's bytes, and the name the client has for it."""

    path: Path
    name: str


async def receive_upload(request: Request, path: Path, limits: Limits, deadline: Deadline) -> Upload:
    """The file in the multipart field `file`, written to `path`, or an HTTPException that says what is wrong."""
    _refuse_other_bodies(request)
    try:
        async with _limited(request, limits, deadline).form(max_files=1, max_fields=1) as form:
            file = _the_file(form.get("file"), limits)
            await asyncio.to_thread(_copy, file, path)
            return Upload(path, (file.filename or "")[:NAME_LETTERS])
    except ClientDisconnect as gone:
        raise HTTPException(400, "the upload broke off") from gone
    except TimeoutError as late:
        floor = f"at least {limits.min_bytes_s / 1000:g} kB/s"
        why = f"the upload was too slow: expected all of it within {deadline.seconds:g} s, and {floor}"
        raise HTTPException(408, why) from late


def _refuse_other_bodies(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "multipart/form-data":
        raise HTTPException(
            400,
            f"the body is {kind[:NAME_LETTERS] or 'of no type'}, expected multipart/form-data: send an image as in "
            "curl -F file=@photo.jpg",
        )


def _limited(request: Request, limits: Limits, deadline: Deadline) -> Request:
    """The same request, whose body ends in 413 beyond the limit and in a TimeoutError if it is late or slow."""
    room = limits.max_bytes + ENVELOPE_BYTES
    declared = request.headers.get("content-length")
    if declared is None:
        why = "the upload does not say how long it is: send the header Content-Length, and no Transfer-Encoding"
        raise HTTPException(411, why, {"Connection": "close"})
    if declared.isdecimal() and int(declared) > room:
        raise _too_large(limits)
    enough = limits.min_bytes_s * UPLOAD_WINDOW_S
    arrived, due, window = 0, enough, Deadline(UPLOAD_WINDOW_S)

    async def receive() -> Message:
        nonlocal arrived, due, window
        message = await deadline.wait_for(window.wait_for(request.receive()))
        arrived += len(message.get("body", b""))
        if arrived > room:
            raise _too_large(limits)
        if arrived >= due:
            due, window = arrived + enough, Deadline(UPLOAD_WINDOW_S)
        return message

    return Request(request.scope, receive)


def _too_large(limits: Limits) -> HTTPException:
    return HTTPException(413, f"the file has more than {limits.max_bytes / 1e6:g} MB, the limit of this server")


def _the_file(field: object, limits: Limits) -> UploadFile:
    if not isinstance(field, UploadFile):
        came = "text" if isinstance(field, str) else "nothing"
        raise HTTPException(422, f"the field 'file' holds {came}: send an image in it, as in curl -F file=@photo.jpg")
    if not field.size:
        raise HTTPException(422, "the file is empty (0 bytes): send it again")
    if field.size > limits.max_bytes:
        raise _too_large(limits)
    return field


def _copy(file: UploadFile, path: Path) -> None:
    with path.open("xb") as target:
        shutil.copyfileobj(file.file, target, 2**20)
