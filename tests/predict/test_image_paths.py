"""Images are found once each, whatever links lead to, and nothing is left out unsaid."""

import glob
import os
from pathlib import Path

import pytest

from saccade.predict.image_paths import find_images, may_find


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("photos/sub").mkdir(parents=True)
    for name in ("photos/1.png", "photos/sub/2.png"):
        Path(name).touch()
    return Path("photos")


@pytest.mark.parametrize("source", ["photos", "photos/*.png", "photos/pipe.png"])
def test_what_is_no_ordinary_file_is_found_and_not_opened(photos, source):
    os.mkfifo(photos / "pipe.png")
    (photos / "gone.png").symlink_to("nowhere.png")
    found = set(find_images([source]))
    assert "photos/pipe.png" in found
    assert ("photos/gone.png" in found) == (source != "photos/pipe.png")


def test_links_that_lead_in_circles_are_entered_once(photos):
    (photos / "self").symlink_to(".")
    (photos / "sub" / "up").symlink_to("../")
    assert list(find_images(["photos"])) == ["photos/1.png", "photos/sub/2.png"]


@pytest.fixture
def circles(photos) -> Path:
    """3⁴⁰ ways, until the system says that a path has too many links."""
    for name in ("self", "other", "third"):
        (photos / name).symlink_to(".")
    (photos / "sub" / "up").symlink_to("../")
    return photos


@pytest.mark.parametrize("pattern", ["photos/**", "photos/**/*.png", "ph*/**/?.png", "**/*.png", "**"])
def test_a_pattern_comes_to_an_end_where_links_lead_in_circles(circles, pattern):
    assert list(find_images([pattern])) == ["photos/1.png", "photos/sub/2.png"]
    assert list(find_images([f"./{pattern}"])) == ["./photos/1.png", "./photos/sub/2.png"]


def test_so_does_one_that_enters_folders_twice(circles):
    found = list(find_images(["photos/**/sub/**/*.png"]))
    assert "photos/sub/2.png" in found
    assert "photos/sub/up/1.png" in found  # in the walk that begins in sub, the first way to it
    assert len(found) == len(set(found)) < 20


@pytest.mark.parametrize(
    "pattern", ["photos/**", "**", "**/*.png", "photos/**/*/*", "p*/**/[s]u*/**", "{here}/**/3.png", "photos/**/.h*/*"]
)
def test_a_pattern_finds_what_glob_finds(photos, pattern, tmp_path_factory):
    for name in ("[1]/a/3.png", "sub/sub/4.png", ".hidden/5.png", ".6.png"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).touch()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "3.png").touch()
    (photos / "link").symlink_to(elsewhere)
    pattern = pattern.format(here=os.getcwd())
    expected = sorted(path for path in set(glob.glob(pattern, recursive=True)) if os.path.isfile(path))
    assert expected
    assert list(find_images([pattern])) == expected


def test_a_linked_folder_is_entered(photos):
    Path("elsewhere").mkdir()
    Path("elsewhere/3.png").touch()
    (photos / "link").symlink_to("../elsewhere")
    assert list(find_images(["photos"])) == ["photos/1.png", "photos/link/3.png", "photos/sub/2.png"]


def test_a_folder_that_cannot_be_read_is_an_error(photos, monkeypatch):
    scandir = os.scandir

    def closed(path):
        if os.path.basename(path) == "sub":  # a mode of 000 would not stop root
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(OSError, match=r"photos/sub: this folder cannot be read \(Permission denied\)"):
        list(find_images(["photos"]))


@pytest.mark.parametrize(
    ("source", "folder", "expected"),
    [
        ("photos", "photos/seen", True),
        ("photos", "seen", False),
        ("photos/1.png", "photos/seen", False),
        ("photos/**/*", "photos/seen", True),
        ("photos/**", "photos/seen/deep", True),
        ("photos/**/*", "seen", False),
        ("photos/**/*.png", "photos/seen", True),
        ("photos/**/*.[jp][pn]g", "photos/seen", True),
        ("photos/**/*.jpg", "photos/seen", False),
        ("photos/*", "photos/seen", False),
        ("photos/*", "photos", True),
        ("photos/*/*", "photos/seen", True),
        ("photos/s*/*.png", "photos/seen", True),
        ("photos/a*/*.png", "photos/seen", False),
        ("link/**/*", "photos/seen", True),
    ],
)
def test_pictures_among_the_images_are_foreseen(photos, source, folder, expected):
    Path("link").symlink_to("photos")
    assert may_find(source, Path(folder)) is expected
    # As it will be: a picture there is found, or not.
    before = {os.path.realpath(image) for image in find_images([source])}
    for place in ("new.png", "sub/new.png"):
        picture = Path(folder) / place
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.touch()
    assert ({os.path.realpath(image) for image in find_images([source])} > before) is expected
