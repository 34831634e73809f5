"""`saccade serve` as a user meets it: a real process, what it prints, and errors that say what to do."""

import importlib.util
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from served import as_png, scene

from saccade.cli import main


@pytest.mark.slow
def test_serves_until_it_is_stopped(model_folder):
    words = [sys.executable, "-m", "saccade.cli", "serve", str(model_folder), "--port", "0", "--max-mb", "0.5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        response = httpx.post(f"{found[0]}/api/predict", files={"file": as_png(scene())}, timeout=20)
        large = httpx.post(f"{found[0]}/api/predict", files={"file": bytes(600_000)}, timeout=20)
        stranger = httpx.get(f"{found[0]}/api/health", headers={"Host": "evil.example"})
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (0, 130)
    assert [response.status_code, large.status_code, stranger.status_code] == [200, 413, 400]
    assert "uvicorn" not in response.headers.get("server", "")


def test_missing_packages_are_named_with_the_command_that_brings_them(monkeypatch, capsys, model_folder):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else there(name))
    assert main(["serve", str(model_folder)]) == 2
    assert "needs fastapi: pip install 'saccade[serve]'" in capsys.readouterr().err


def test_port_in_use_is_one_line(capsys, model_folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(model_folder), "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.count(str(port)) == 1  # and the reason once
    assert "(Address already in use)" in error
    assert "--port" in error


def test_run_that_is_not_there(capsys, tmp_path):
    assert main(["serve", str(tmp_path / "nothing"), "--port", "0"]) == 2
    assert "nothing" in capsys.readouterr().err
