"""Files behind URLs are the same bytes, whatever happens on the way; what cannot be had is one line."""

import os
import pickle

import pytest

from saccade.places import RangedFile, RemoteFile, UnreachableError, fetch, find_files, is_url, remote, url_within
from saccade.places.cache import cache_folder

DATA = os.urandom(3_000_000)


@pytest.fixture
def file(server):
    (server.folder / "a b.bin").write_bytes(DATA)
    return f"{server.url}/a%20b.bin"


def read(url: str) -> bytes:
    return fetch(url).path.read_bytes()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_copy_is_fetched_once_and_anew_when_it_has_changed(server, file, ranges):
    server.ranges = ranges
    assert read(file) == DATA
    sent = server.sent_bytes
    assert read(file) == DATA
    assert server.sent_bytes - sent <= 2
    (server.folder / "a b.bin").write_bytes(DATA[:1000])
    assert read(file) == DATA[:1000]


@pytest.mark.parametrize("trouble", [["break"], ["503"], ["break", "503", "break"], ["", "break"]])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_line_that_breaks_is_taken_up_again(server, file, trouble, ranges):
    server.ranges, place = ranges, RemoteFile(file)
    assert place.size == len(DATA)
    server.trouble = list(trouble)
    assert fetch(place).path.read_bytes() == DATA


def test_it_is_not_tried_for_ever(server, file):
    server.trouble = ["503"] * 100
    with pytest.raises(UnreachableError, match=r"the server answers 503, 4 times in a row$"):
        fetch(file)
    assert len(server.trouble) > 100 - 10


def test_a_slow_server_has_its_time(server, file, monkeypatch):
    monkeypatch.setattr(remote, "REQUEST_S", 0.2)
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    server.trouble = ["slow"] * 100
    with pytest.raises(UnreachableError, match=r"no answer within 0.2 s, 2 times in a row$"):
        fetch(file)


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_not_tried_again(server, file, status):
    server.trouble = [str(status)] * 100
    with pytest.raises(UnreachableError, match=rf"refused \({status}\): check the credentials"):
        fetch(file)
    assert len(server.trouble) >= 98


def test_what_is_not_there_is_said(server):
    with pytest.raises(UnreachableError, match=r"/gone.jpg: no such file or folder$"):
        fetch(f"{server.url}/gone.jpg")
    with pytest.raises(UnreachableError, match=r"the connection failed .* 4 times in a row"):
        fetch("http://127.0.0.1:9/a.jpg")


@pytest.mark.parametrize("url", ["what://ever", "simplecache::http://127.0.0.1/a.jpg"])
def test_what_nobody_knows_is_said(cache, url):
    if is_url(url):
        with pytest.raises(UnreachableError, match="what"):
            fetch(url)
    with pytest.raises(UnreachableError):
        RemoteFile(url).key  # noqa: B018


def test_parts_are_the_bytes_and_nothing_else_is_fetched(server, file):
    ranged = RangedFile(RemoteFile(file))
    before = server.sent_bytes
    for place in (ranged, pickle.loads(pickle.dumps(ranged))):
        with place.open() as part:
            for start, count in ((1_000_000, 10), (1_000_005, 70_000), (2_999_990, 100), (0, 4)):
                part.seek(start)
                assert part.read(count) == DATA[start : start + count]
    assert server.sent_bytes - before < 400_000


def test_the_cache_drops_what_was_unused_longest_and_nothing_that_is_held(server, cache, monkeypatch):
    monkeypatch.setenv("SACCADE_CACHE_GB", "0.0025")
    for number in range(6):
        (server.folder / f"{number}.bin").write_bytes(bytes([number]) * 1_000_000)
    held = fetch(f"{server.url}/0.bin")
    for number in range(1, 6):
        fetch(f"{server.url}/{number}.bin")
    kept = {path.name for path in cache_folder().rglob("*.bin")}
    assert held.path.read_bytes() == bytes(1_000_000)
    assert {"0.bin", "5.bin"} <= kept
    assert len(kept) <= 3


def test_a_file_larger_than_the_cache_is_refused(server, file, monkeypatch):
    for server.ranges in (True, False):
        monkeypatch.setenv("SACCADE_CACHE_GB", "0.001")
        with pytest.raises(UnreachableError, match="raise SACCADE_CACHE_GB"):
            fetch(file)
    assert not [path for path in cache_folder().rglob("*") if path.is_file()]


def test_a_folder_is_what_lies_in_it(server):
    for name in ("photos/1.jpg", "photos/more/2.jpg", "photos/.hidden.jpg", "else/3.jpg"):
        (server.folder / name).parent.mkdir(exist_ok=True)
        (server.folder / name).touch()
    (server.folder / "photos" / "index.html").write_text(
        '<a href="/else/">up</a> <a href="../">up</a> <a href="1.jpg">1</a> <a href="more/">more</a>'
    )
    found = find_files(f"{server.url}/photos/")
    assert found == [f"{server.url}/photos/1.jpg", f"{server.url}/photos/more/2.jpg"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../a.jpg", "a/../../b.jpg", ".."])
def test_a_name_leads_out_of_no_folder(name):
    with pytest.raises(ValueError, match="leads out of"):
        url_within("http://127.0.0.1/photos", name)
