"""A stand-in for the hub's HTTP file interface on loopback: models as folders, each with one revision, `main`."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest


class Hub(ThreadingHTTPServer):
    """Models by name, each file by its name; `breaks`: files that are sent by half, whenever they are asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.breaks: set[str] = set()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, name: str, folder) -> str:
        """The files of a folder, as the model `name`."""
        self.models[name] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        return name

    def commit_of(self, name: str) -> str:
        return sha1(repr(sorted(self.models[name].items())).encode()).hexdigest()

    def handle_error(self, request, client_address) -> None:
        pass  # a client that had enough


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer_get()

    def do_GET(self) -> None:
        self._answer_get()

    def _answer_get(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.server.asked.append(f"{self.command} {path}")
        parts = path.split("/")
        name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        if name not in self.server.models:
            return self._send({"error": "no such model"}, status=404, headers={"X-Error-Code": "RepoNotFound"})
        files, commit = self.server.models[name], self.server.commit_of(name)
        if parts[0] != "api":
            return self._send_file(name, parts[-1])
        if parts[4] == "revision" and parts[5] not in ("main", commit):
            return self._send({"error": "no"}, status=404, headers={"X-Error-Code": "RevisionNotFound"})
        if parts[4] == "revision":
            return self._send({"id": name, "sha": commit, "siblings": [{"rfilename": each} for each in files]})
        listed = [_entry(path, data) for path, data in files.items()]
        return self._send(listed)

    def _send_file(self, name: str, file: str) -> None:
        data = self.server.models[name].get(file)
        if data is None:
            return self._send({}, status=404, headers={"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": self.server.commit_of(name), "ETag": f'"{sha1(data).hexdigest()}"'}
        whole = file not in self.server.breaks
        self.close_connection = not whole
        return self._send(data, headers=headers, length=None if whole else len(data) // 2)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        path = self.path.strip("/")
        self.server.asked.append(f"POST {path}")
        name = "/".join(path.split("/")[2:4])
        if path == "api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'somebody'}/{asked['name']}"
            self.server.models.setdefault(name, {})
            self.server.private[name] = asked.get("private") or asked.get("visibility") == "private"
            return self._send({"url": f"{self.server.url}/{name}", "name": name})
        if path == "api/validate-yaml":
            return self._send({"errors": [], "warnings": []})
        if "/preupload/" in path:
            asked = json.loads(body)["files"]
            return self._send(
                {"files": [{"path": e["path"], "uploadMode": "regular", "shouldIgnore": False} for e in asked]}
            )
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.server.models[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        commit = self.server.commit_of(name)
        return self._send({"commitUrl": f"{self.server.url}/{name}/commit/{commit}", "commitOid": commit})

    def _send(self, what, *, status: int = 200, headers=None, length: int | None = None) -> None:
        data = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if what is data else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:length])


def _entry(path: str, data: bytes) -> dict:
    return {"type": "file", "path": path, "size": len(data), "oid": sha1(data).hexdigest()}


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    """A hub that is asked by this process and its children, with an empty cache and no pauses between attempts."""
    from huggingface_hub import constants, file_download
    from huggingface_hub.utils import _http

    with Hub() as served:
        endpoint, cache = served.url, str(tmp_path / "hub_cache")
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        monkeypatch.setenv("HF_HUB_CACHE", cache)
        monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
        for module in (file_download, _http):
            monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None}))
        threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.shutdown()
