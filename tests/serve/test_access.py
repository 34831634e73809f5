"""Who may ask: not pages of other addresses, and beyond this machine only those who know the token."""

import socket
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from served import as_png, scene

from saccade.cli import main
from saccade.serve import Limits, create_app

TOKEN = "a token of many letters"


def send(client: TestClient, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/api/predict", files={"file": ("a.png", as_png(scene()))}, headers=named)


def open_client(predictor, token: str | None = None) -> TestClient:
    app = create_app(predictor, name="tiny", limits=Limits(timeout_s=120), hosts=["localhost", "a.org"], token=token)
    return TestClient(app, base_url="http://localhost:8000", follow_redirects=False)


@pytest.fixture(scope="module")
def client(predictor) -> Iterator[TestClient]:
    with open_client(predictor) as client:
        yield client


def test_other_hosts_are_refused(client):
    assert client.get("/api/health", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.com"},
        {"Origin": "http://localhost:9000"},
        {"Origin": "http://localhost"},
        {"Origin": "https://localhost.evil.com:8000"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "file://localhost:8000"},
        {"Origin": "http://evil.com", "Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_pages_of_other_addresses_are_refused(client, headers):
    refused = send(client, **headers)
    assert refused.status_code == 403
    assert "not from pages of other addresses" in refused.json()["detail"]
    assert "default-src 'none'" in refused.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:8000", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "http://LOCALHOST:8000"},
        {"Sec_Fetch_Site": "none"},
        {"Host": "a.org", "Origin": "https://a.org"},  # behind a proxy that encrypts
        {"Host": "a.org:443", "Origin": "https://a.org"},
    ],
)
def test_its_own_page_and_programs_are_answered(client, headers):
    assert send(client, **headers).status_code == 200


def test_token_is_asked_for_everywhere(predictor):
    with open_client(predictor, TOKEN) as client:
        for address in ("/", "/page.js", "/api/health", "/api/openapi.json", "/nothing", "/?token=wrong"):
            refused = client.get(address)
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert "token" in refused.json()["detail"]
        assert send(client).status_code == 401
        assert send(client, Authorization=f"Basic {TOKEN}").status_code == 401
        assert send(client, Authorization="Bearer wrong").status_code == 401
        assert send(client, Authorization=f"Bearer {TOKEN}").status_code == 200


def test_page_takes_the_token_from_its_address_and_keeps_it_from_others(predictor):
    with open_client(predictor, TOKEN) as client:
        entry = client.get("/", params={"token": TOKEN})
        assert (entry.status_code, entry.headers["location"]) == (303, "/")
        assert {"HttpOnly", "SameSite=strict"} <= set(entry.headers["set-cookie"].split("; "))
        assert client.get("/").status_code == 200
        tile = send(client).json()["image"]["tiles"].format(level=0, x=0, y=0)
        assert client.get(tile).status_code == 200
        assert send(client, Origin="http://evil.com").status_code == 403  # the cookie would go along


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets others in: say with --allowed-host"),
        (["--token", "short"], "--token has 5 letters, expected at least 16"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_loaded(model_folder, capsys, words, said):
    assert main(["serve", str(model_folder), "--port", "0", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def served(monkeypatch):
    """What would be served: the application's options instead of the application."""
    import uvicorn

    told: dict = {}
    monkeypatch.setattr("saccade.serve.create_app", lambda predictor, **options: told.update(options))
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    return told


def test_beyond_this_machine_a_token_is_made_up_and_printed(model_folder, capsys, served):
    words = ["serve", str(model_folder), "--port", "0", "--host", "0.0.0.0", "--allowed-host", "a.org", "b.org"]
    assert main(words) == 0
    line = capsys.readouterr().out
    assert len(served["token"]) >= 32
    assert f"/?token={served['token']}" in line
    assert line.startswith("drop an image on http://a.org:")
    assert {"a.org", "b.org", "localhost"} <= set(served["hosts"])
    assert "*" not in served["hosts"]
    assert main([*words, "--token", TOKEN]) == 0
    assert served["token"] == TOKEN
    assert TOKEN not in capsys.readouterr().out


def test_on_this_machine_no_token_is_asked_for(model_folder, served):
    for host in ("127.0.0.1", "localhost") + (("::1",) if socket.has_ipv6 else ()):
        assert main(["serve", str(model_folder), "--port", "0", "--host", host]) == 0
        assert served["token"] is None
