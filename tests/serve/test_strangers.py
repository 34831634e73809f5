"""An upload is a stranger's file: whatever it says, no other file is opened for it."""

import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import HTTPException

from saccade.serve import Limits
from saccade.serve.examination import examine
from tests.hostile.bombs import write_files_that_name_others

# In a process of its own, whose opens are seen. What C code opens is not, but it would wait at the pipe for ever.
WATCHED = """
import sys
from pathlib import Path
from saccade.predict import Predictor
from saccade.serve import Limits
from saccade.serve.examination import examine
from fastapi import HTTPException

predictor, uploads, opened = Predictor(sys.argv[1], device="cpu"), Path(sys.argv[2]), []
sys.addaudithook(lambda event, words: opened.append(str(words[0])) if event == "open" else None)
for path in sorted(uploads.iterdir()):
    if path.is_file():
        try:
            examine(predictor, path, Limits())
        except HTTPException:
            pass
others = {"secret.jpg", "pipe"}
sys.exit(any(Path(each).name in others for each in opened))
"""


@pytest.fixture
def uploads(tmp_path) -> Path:
    write_files_that_name_others(tmp_path)
    return tmp_path / "uploads"


def test_no_upload_makes_the_server_open_another_file(model_folder, uploads):
    done = subprocess.run([sys.executable, "-c", WATCHED, str(model_folder), str(uploads)], timeout=120, check=False)
    assert done.returncode == 0


def test_a_slide_of_several_files_is_refused(predictor, uploads):
    with pytest.raises(HTTPException) as refusal:
        examine(predictor, uploads / "vms0.vms", Limits())
    assert refusal.value.status_code in (415, 422)
