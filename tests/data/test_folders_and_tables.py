"""Folders of class folders and tables: what loads, and what each mistake is answered with."""

from pathlib import Path

import pytest
from PIL import Image

from saccade.data.folders_and_tables import load_folder, load_manifest
from saccade.data.loading import load
from saccade.data.records import DataError


def put_images(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 3), "red").save(root / name)
    return root


def put_table(root: Path, text: str, name: str = "labels.csv") -> Path:
    put_images(root, "a.jpg", "b.jpg", "sub/c.jpg")
    (root / name).write_bytes(text.encode())
    return root / name


def listed(records, root: Path) -> list[tuple[str, str, str]]:
    return [(record.image.relative_to(root).as_posix(), record.label, record.split) for record in records.records]


@pytest.mark.parametrize("suffix", [".svs", ".ndpi", ".mrxs", ".SCN", ".bif"])
def test_slides_of_scanners_are_images(suffix, tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        (tmp_path / label / f"1{suffix}").touch()
    assert [record.image.name for record in load_folder(tmp_path).records] == [f"1{suffix}"] * 2


@pytest.mark.parametrize("labels", [("Red", "red"), ("caf\u00e9", "cafe\u0301"), ("no crack", "nocrack")])
def test_classes_written_nearly_alike_are_two_and_told(labels, tmp_path):
    put_images(tmp_path, *(f"{label}/{n}.png" for label in (*labels, "blue") for n in range(4)))
    records = load(tmp_path)
    assert len(records.classes) == 3
    (note,) = (note for note in records.notes if "differ by capitals or spaces alone" in note)
    assert all(repr(label) in note for label in labels)
    assert "blue" not in note


def test_class_folders_are_read_at_any_depth(tmp_path):
    put_images(tmp_path, "cat/1.jpg", "cat/2020/2.PNG", "dog/1.tif", ".cache/x/1.jpg", "dog/.hidden.jpg")
    (tmp_path / "dog" / "notes.txt").write_text("good dog")
    records = load_folder(tmp_path)
    assert listed(records, tmp_path) == [
        ("cat/1.jpg", "cat", ""),
        ("cat/2020/2.PNG", "cat", ""),
        ("dog/1.tif", "dog", ""),
    ]
    assert records.classes == ("cat", "dog")
    assert records.notes == ("left out 1 files that have no image's suffix, such as dog/notes.txt",)


def test_a_link_to_a_folder_above_leads_in_no_circles(tmp_path):
    put_images(tmp_path, "cat/1.jpg", "dog/1.jpg")
    (tmp_path / "dog" / "same").symlink_to(tmp_path / "dog")
    assert [name for name, _, _ in listed(load_folder(tmp_path), tmp_path)] == ["cat/1.jpg", "dog/1.jpg"]


@pytest.mark.parametrize("val", ["val", "valid", "validation", "Val"])
def test_split_folders_are_the_splits(tmp_path, val):
    put_images(tmp_path, "train/cat/1.jpg", "train/dog/1.jpg", f"{val}/cat/2.jpg", f"{val}/dog/2.jpg", "test/dog/3.jpg")
    records = load(tmp_path)
    assert sorted(listed(records, tmp_path)) == sorted(
        [
            ("train/cat/1.jpg", "cat", "train"),
            ("train/dog/1.jpg", "dog", "train"),
            (f"{val}/cat/2.jpg", "cat", "val"),
            (f"{val}/dog/2.jpg", "dog", "val"),
            ("test/dog/3.jpg", "dog", "test"),
        ]
    )
    assert "class 'cat' has no test images" in records.notes


def test_train_alone_gives_validation_and_no_test(tmp_path):
    put_images(tmp_path, *(f"train/{label}/{n}.jpg" for label in ("cat", "dog") for n in range(10)))
    counts = load(tmp_path, val_share=0.2).counts()
    assert counts == {"train": {"cat": 8, "dog": 8}, "val": {"cat": 2, "dog": 2}, "test": {"cat": 0, "dog": 0}}


def test_a_class_may_be_called_train(tmp_path):
    put_images(tmp_path, "bus/1.jpg", "train/1.jpg", "tram/1.jpg")
    assert load_folder(tmp_path).classes == ("bus", "train", "tram")


def test_split_folders_beside_others_are_refused(tmp_path):
    put_images(tmp_path, "train/cat/1.jpg", "test/cat/1.jpg", "masks/1.png")
    with pytest.raises(DataError, match=r"split folder \(train\) beside others \(masks\)"):
        load(tmp_path)


def test_a_label_without_images_is_refused(tmp_path):
    put_images(tmp_path, "cat/1.jpg", "dog/1.jpg")
    (tmp_path / "eel").mkdir()
    with pytest.raises(DataError, match="eel: a class folder without images"):
        load(tmp_path)


@pytest.mark.parametrize("names", [(), ("1.jpg", "2.jpg"), ("only/1.jpg",)])
def test_what_is_no_data_set_is_told_what_one_is(tmp_path, names):
    put_images(tmp_path, *names)
    with pytest.raises(DataError, match="not a data set; expected a folder with one folder of images per class"):
        load(tmp_path)


def test_a_missing_path_is_said(tmp_path):
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        load(tmp_path / "nowhere")


def test_a_table_with_everything_in_it(tmp_path):
    lines = [
        "Image, label ,split,boxes",
        'a.jpg,"cat, big",train,1 2 3 4;0 0 2 1',
        "",
        "sub/c.jpg,dog,TRAIN,",
        "b.jpg,dog,valid",
    ]
    records = load_manifest(put_table(tmp_path, "\ufeff" + "\r\n".join(lines)))
    assert listed(records, tmp_path) == [
        ("a.jpg", "cat, big", "train"),
        ("sub/c.jpg", "dog", "train"),
        ("b.jpg", "dog", "val"),
    ]
    assert [record.boxes for record in records.records] == [((1, 2, 3, 4), (0, 0, 2, 1)), (), ()]
    assert records.classes == ("cat, big", "dog")


def test_tabs_and_an_images_folder(tmp_path):
    put_images(tmp_path, "images/x/1.jpg", "images/2.jpg")
    (tmp_path / "labels.tsv").write_text("label\timage\ncat\tx/1.jpg\ndog\t2.jpg\n")
    records = load_manifest(tmp_path / "labels.tsv")
    assert listed(records, tmp_path) == [("images/x/1.jpg", "cat", ""), ("images/2.jpg", "dog", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,split\na.jpg,train\n", r"labels.csv, line 1: no column 'label' in 'image, split'"),
        (
            "image;label\na.jpg;cat\n",
            r"line 1: no column 'image' and 'label' in 'image;label'; .* by commas, and this one by semicolons",
        ),
        ("", "line 1: no column 'image' and 'label'"),
        ("image,label\n", "no line below the header"),
        ("image,label,split\na.jpg,cat,train\nb.jpg,Cat,test\n", "no training images for Cat, only val or test ones"),
        ("image,label\na.jpg,cat\nb.jpg,\n", r"line 3: no label for 'b.jpg'"),
        ("image,label\n,cat\n", "line 2: label 'cat' without an image"),
        ("image,label\na.jpg,cat,train\n", "line 2: more fields than the header's 2"),
        ("image,label,split\na.jpg,cat,training set\n", "line 2: unknown split 'training set'; expected one of train"),
        ("image,label,split\na.jpg,cat,train\nb.jpg,cat,\n", "line 3: some lines give a split and some do not"),
        ("image,label\nz.jpg,cat\n", "line 2: no image 'z.jpg'"),
        ("image,label\nsub,cat\n", "line 2: no image 'sub'"),
        ("image,label\na.jpg,cat\nsub/../a.jpg,dog\n", r"line 3: 'sub/../a.jpg' is already on line 2"),
        ("image,label\n../secret.jpg,cat\n", r"line 2: '../secret.jpg' leads out of the data folder"),
        ("image,label\n/etc/passwd,cat\n", "line 2: '/etc/passwd' leads out of the data folder"),
        ("image,label,boxes\na.jpg,cat,1 2 3\n", "line 2: box '1 2 3' is not four whole numbers"),
        ("image,label,boxes\na.jpg,cat,1 2 3 4; 5 5 5 9\n", "line 2: box '5 5 5 9'"),
        ("image,label,boxes\na.jpg,cat,1 2 x 4\n", "line 2: box '1 2 x 4'"),
        ('image,label\na.jpg,"cat\n', "line [23]: unexpected end of data"),
    ],
)
def test_a_mistake_in_a_table_is_answered_with_its_line(tmp_path, text, message):
    put_images(tmp_path, "secret.jpg")
    with pytest.raises(DataError, match=message):
        load_manifest(put_table(tmp_path / "data", text))


def test_groups_and_folds_are_columns(tmp_path):
    table = put_table(tmp_path, "image,label,group,fold,patient\na.jpg,x,g1,0,p\nb.jpg,y,g2,1,p\n")
    assert [(each.group, each.fold) for each in load_manifest(table).records] == [("g1", "0"), ("g2", "1")]
    assert [each.group for each in load_manifest(table, "Patient").records] == ["p", "p"]
    with pytest.raises(DataError, match="line 1: no column 'doctor' to group by; the columns are image, label, group"):
        load_manifest(table, "doctor")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,label,group\na.jpg,x,kos 1\nb.jpg,y,kos1\n", r"line 3: group 'kos1' differs by spaces .* on line 2"),
        ("image,label,group\na.jpg,x,kos1\nb.jpg,y,\n", "line 3: some lines give a group and some do not"),
        ("image,label,fold\na.jpg,x,\nb.jpg,y,1\n", "line 3: some lines give a fold and some do not"),
        ("image,label,fold\na.jpg,x,../1\n", "line 2: fold '../1' cannot name a folder"),
    ],
)
def test_a_mistake_in_groups_or_folds_is_answered_with_its_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        load_manifest(put_table(tmp_path, text))


def test_a_table_that_is_not_utf8(tmp_path):
    table = put_table(tmp_path, "")
    table.write_bytes("image,label\na.jpg,Käse\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8 text; save the table as UTF-8"):
        load_manifest(table)


def test_the_way_out_is_seen_from_the_working_folder_too(tmp_path, monkeypatch):
    put_images(tmp_path, "secret.jpg")
    put_table(tmp_path / "data", "image,label\n../secret.jpg,cat\n")
    monkeypatch.chdir(tmp_path / "data")
    with pytest.raises(DataError, match="leads out of the data folder"):
        load_manifest(Path("labels.csv"))


def test_a_draw_does_not_depend_on_where_the_data_lies_or_how_it_is_named(tmp_path):
    names = [f"{label}/{n}.jpg" for label in ("cat", "dog") for n in range(12)]
    one, two = put_images(tmp_path / "one", *names), put_images(tmp_path / "two", *names)
    lines = [f"{name},{name[:3]}" for name in reversed(names)]
    (two / "labels.csv").write_text("\n".join(["image,label", *lines]))
    assert sorted(listed(load(one, seed=3), one)) == sorted(listed(load(two, seed=3), two))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("kolektor", {"train": {"clean": 174, "defect": 26}, "test": {"clean": 87, "defect": 13}}),
        ("speed_limits", {"train": {"20": 73, "40": 61, "70": 51}, "test": {"20": 17, "40": 29, "70": 39}}),
    ],
)
def test_real_tables(shared_data, name, counts):
    records = load(shared_data / name)
    found = records.counts()
    assert found["test"] == counts["test"]
    assert {label: found["train"][label] + found["val"][label] for label in records.classes} == counts["train"]
    for label, count in counts["train"].items():
        assert abs(found["val"][label] - 0.15 * count) < 1
    assert records.records == load(shared_data / name / "labels.csv").records


def test_real_boxes_go_with_the_evidence(shared_data):
    kolektor = load(shared_data / "kolektor")
    assert {record.label for record in kolektor.records if record.boxes} == {"defect"}
    two = next(record for record in kolektor.records if record.image.name == "train_135.jpg")
    assert two.boxes == ((166, 588, 340, 602), (329, 500, 499, 590))
    assert all(len(record.boxes) == 1 for record in load(shared_data / "speed_limits").records)
