import threading

import pytest

from saccade.files import locked
from saccade.training import alone
from saccade.training.alone import LOCK, alone_in


def test_a_folder_that_is_let_go_of_soon_is_waited_for(tmp_path, monkeypatch):
    """As the processes that read images let go of it some seconds after theirs was killed."""
    monkeypatch.setattr(alone, "WAIT_S", 0.3)
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with locked(tmp_path / LOCK, wait=False):
            held.set()
            let_go.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with pytest.raises(ValueError, match="another process trains"), alone_in(tmp_path):
        pass
    monkeypatch.setattr(alone, "WAIT_S", 60.0)
    threading.Timer(0.5, let_go.set).start()
    with alone_in(tmp_path), pytest.raises(BlockingIOError), locked(tmp_path / LOCK, wait=False):
        pass
    other.join()
