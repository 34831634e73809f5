"""Archives: what is packed comes out, nothing lands outside, and half an unpacking is none."""

import io
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from saccade.data import archives
from saccade.data.archives import unpack
from saccade.data.loading import load
from saccade.data.records import DataError


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != archives.STAMP
    }


@pytest.fixture
def flowers(tmp_path) -> Path:
    for label in ("daisy", "rose"):
        (tmp_path / "flowers" / label).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / "flowers" / label / f"{number}.png")
    return tmp_path / "flowers"


def pack_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        for member in members:
            member.size = 3 if member.isfile() else 0
            archive.addfile(member, io.BytesIO(b"abc"))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("kind", ["tar", "gztar", "xztar", "bztar", "zip"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_an_archive_loads_like_its_folder(tmp_path, flowers, kind, wrapped):
    top = {"root_dir": tmp_path, "base_dir": "flowers"} if wrapped else {"root_dir": flowers}
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), kind, **top))
    from_folder, from_archive = load(flowers), load(archive)
    folder = tmp_path / f"{archive.name}.unpacked"
    assert tree(folder / "flowers" if wrapped else folder) == tree(flowers)
    assert [(r.image.name, r.label, r.split) for r in from_archive.records] == [
        (r.image.name, r.label, r.split) for r in from_folder.records
    ]


def test_the_cache_folder_may_be_elsewhere(tmp_path, flowers):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", flowers))
    load(archive, cache=tmp_path / "new" / "cache")
    assert tree(tmp_path / "new" / "cache" / "packed.zip.unpacked") == tree(flowers)
    assert not (tmp_path / "packed.zip.unpacked").exists()


def test_it_is_unpacked_once_and_a_changed_archive_is_noticed(tmp_path, flowers, monkeypatch):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", flowers))
    folder = unpack(archive)
    with monkeypatch.context() as patch:
        patch.setattr(archives, "_write_members", lambda *_: pytest.fail("unpacked twice"))
        assert unpack(archive) == folder
    shutil.make_archive(str(tmp_path / "packed"), "tar", flowers / "daisy")
    with pytest.raises(DataError, match=r"packed.tar.unpacked was unpacked from another state .* delete that folder"):
        unpack(archive)


def test_a_folder_of_that_name_that_is_not_ours_is_not_trusted(tmp_path, flowers):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", flowers))
    (tmp_path / "packed.tar.unpacked").mkdir()
    with pytest.raises(DataError, match="another state"):
        unpack(archive)


@pytest.mark.parametrize(
    "name", ["../evil.txt", "a/../../evil.txt", "/evil.txt", "..\\evil.txt", "C:\\evil.txt", "\\\\host\\x"]
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_path_out_of_the_archive_is_refused(tmp_path, name, kind):
    box = tmp_path / "box"
    box.mkdir()
    archive = box / f"bad.{kind}"
    if kind == "tar":
        pack_tar(archive, member("good.txt"), member(name))
    else:
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("good.txt", b"abc")
            file.writestr(name, b"abc")
    with pytest.raises(DataError, match="leads out of the archive"):
        unpack(archive)
    assert [path.name for path in tmp_path.rglob("*")] == ["box", archive.name]  # no file, no leftovers


@pytest.mark.parametrize(
    "bad",
    [
        member("link", tarfile.SYMTYPE, "/etc"),
        member("link", tarfile.SYMTYPE, "good.txt"),
        member("link", tarfile.LNKTYPE, "good.txt"),
        member("pipe", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE),
    ],
    ids=["symlink out", "symlink in", "hard link", "pipe", "device"],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, bad):
    with pytest.raises(DataError, match="is a link or a device, which is not unpacked"):
        unpack(pack_tar(tmp_path / "bad.tar", member("good.txt"), bad, member("link/inside.txt")))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar"]


def test_links_in_a_zip_are_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr(info, "/etc")
    with pytest.raises(DataError, match="'link' is a link"):
        unpack(tmp_path / "bad.zip")


def test_an_encrypted_zip_is_said(tmp_path):
    with zipfile.ZipFile(tmp_path / "secret.zip", "w") as file:
        file.writestr("a.txt", b"abc")
    content = bytearray((tmp_path / "secret.zip").read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1  # the flag in the central directory
    (tmp_path / "secret.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"'a.txt' is encrypted"):
        unpack(tmp_path / "secret.zip")


def test_what_macos_adds_is_left_out(tmp_path, flowers):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", flowers))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("__MACOSX/daisy/._0.png", b"abc")
    assert tree(unpack(archive)) == tree(flowers)


@pytest.mark.parametrize("kind", ["gztar", "xztar", "tar", "zip"])
def test_a_damaged_archive_leaves_nothing(tmp_path, flowers, kind):
    archive = Path(shutil.make_archive(str(tmp_path / "out" / "packed"), kind, flowers))
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(DataError, match="damaged or not an archive"):
        unpack(archive)
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_a_text_file_called_zip(tmp_path):
    (tmp_path / "a.zip").write_text("hello")
    with pytest.raises(DataError, match=r"a.zip: damaged or not an archive"):
        load(tmp_path / "a.zip")


KILLED_HALFWAY = """
import os, signal, sys
from pathlib import Path
from saccade.data import archives
copy, copied = archives._copy, []
def copy_or_die(*arguments):
    copied.append(copy(*arguments))
    if len(copied) == 7:
        os.kill(os.getpid(), signal.SIGKILL)
archives._copy = copy_or_die
archives.unpack(Path(sys.argv[1]))
"""


def test_a_killed_unpacking_is_not_taken_for_a_finished_one(tmp_path, flowers):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", flowers))
    killed = subprocess.run([sys.executable, "-c", KILLED_HALFWAY, str(archive)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".packed.tar.*/*/*.png"))) == 7
    assert tree(unpack(archive)) == tree(flowers)


def test_an_interrupted_unpacking_cleans_up(tmp_path, flowers, monkeypatch):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", flowers))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archives, "_copy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            unpack(archive)
    assert {path.name for path in tmp_path.iterdir()} == {"flowers", "packed.tar"}


def test_several_at_once_share_one_result(tmp_path, flowers):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "gztar", flowers))
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(unpack, [archive] * 8))
    assert len(folders) == 1
    assert tree(folders.pop()) == tree(flowers)
    assert {path.name for path in tmp_path.iterdir()} == {"flowers", "packed.tar.gz", "packed.tar.gz.unpacked"}


@pytest.mark.parametrize("kind", ["w:gz", "w:xz", "zip"])
def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(archives, "FREE_BYTES", 10**6)
    zeros = bytes(20 * 10**6)
    path = tmp_path / ("bomb.zip" if kind == "zip" else f"bomb.tar.{kind[2:]}")
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("cat/1.png", zeros)
    else:
        with tarfile.open(path, kind) as archive:
            info = member("cat/1.png")
            info.size = len(zeros)
            archive.addfile(info, io.BytesIO(zeros))
    with pytest.raises(DataError, match=r"bomb\..*unpacks to more than 100 times its size.*unpack it yourself"):
        unpack(path)
    assert [left.name for left in tmp_path.iterdir()] == [path.name]


def test_an_archive_that_unpacks_to_too_much_is_refused_whatever_its_ratio(tmp_path, flowers, monkeypatch):
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", flowers))
    monkeypatch.setattr(archives, "MAX_BYTES", 20 * 4096)  # as many as there are images, without their bytes
    with pytest.raises(DataError, match=r"packed\.tar: unpacks to more than .* GB, which is the limit"):
        unpack(archive)
    assert {path.name for path in tmp_path.iterdir()} == {"flowers", "packed.tar"}


def test_a_million_empty_files_are_too_much_too(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "FREE_BYTES", 10**6)
    with tarfile.open(tmp_path / "many.tar.gz", "w:gz") as archive:
        for number in range(2000):
            archive.addfile(member(f"cat/{number}.png"))
    with pytest.raises(DataError, match="times its size"):
        unpack(tmp_path / "many.tar.gz")
