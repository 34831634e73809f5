"""A process of its own that looks at the uploads in a folder as the server does: `MODEL UPLOADS guarded|here`.

Prints a line of JSON per file: the status it would be answered with, and what was opened or started meanwhile, as
Python's audit hooks see it in this process. A guard's process is seen by strace alone.
"""

import contextlib
import json
import sys
from pathlib import Path

from fastapi import HTTPException
from served import as_png, as_pyramid, scene

from saccade.images import Guard
from saccade.predict import Predictor
from saccade.serve import Limits
from saccade.serve.examination import examine
from saccade.serve.limits import Deadline
from saccade.serve.tiles import make_tile

WATCHED = ("open", "os.listdir", "os.scandir", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.")


def look(predictor: Predictor, path: Path, guards: dict[str, Guard]) -> int:
    """All that a client can ask for: the answer and a tile."""
    try:
        kept = examine(predictor, path, Limits(), Deadline(30), **guards)
        assert make_tile(kept.tiles, 0, 0, 0)
        return 200
    except HTTPException as refusal:
        return refusal.status_code


if __name__ == "__main__":
    model, uploads, how = sys.argv[1:]
    predictor, events = Predictor(model, device="cpu"), []
    with contextlib.ExitStack() as stack:
        names = ("guard", "tile_guard") if how == "guarded" else ()
        guards = {name: stack.enter_context(Guard()) for name in names}
        for number, data in enumerate((as_png(scene()), as_pyramid(scene(256, 256)), b"II*\0", b"text")):
            (Path(uploads).parent / str(number)).write_bytes(data)  # modules are files, too: let all be imported
            look(predictor, Path(uploads).parent / str(number), guards)
        sys.addaudithook(lambda event, about: events.append(f"{event} {about}") if event.startswith(WATCHED) else None)
        for path in sorted(Path(uploads).iterdir()):
            events.clear()
            status = look(predictor, path, guards)
            others = [event for event in events if repr(str(path)) not in event and repr(path) not in event]
            print(json.dumps({"name": path.name, "status": status, "others": others}), flush=True)
