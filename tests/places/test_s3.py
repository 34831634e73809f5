"""S3, by a server on loopback: what fsspec does over there is what it does over HTTP, credentials included."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny import make_spots

from saccade.data.loading import load
from saccade.data.sharding import plan_shards, write_shards
from saccade.images import open_image, open_url
from saccade.images.in_shards import at_hand
from saccade.places import UnreachableError, fetch, find_files, members

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'saccade[dev]'")
pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 's3fs'")
moto = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'saccade[dev]'")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    served = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    served.start()
    host, port = served.get_host_and_port()
    yield f"http://{host}:{port}"
    served.stop()


@pytest.fixture
def bucket(endpoint, cache, monkeypatch):
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    client = boto3.client("s3")
    client.create_bucket(Bucket="images")
    return client


def test_folders_files_and_tiles(bucket, slide):
    bucket.upload_file(str(slide), "images", "slides/1.tif")
    bucket.put_object(Bucket="images", Key="slides/more/2.jpg", Body=b"abc")
    assert find_files("s3://images/slides") == ["s3://images/slides/1.tif", "s3://images/slides/more/2.jpg"]
    assert fetch("s3://images/slides/more/2.jpg").path.read_bytes() == b"abc"
    box = torch.tensor([[1000, 700, 1100, 800]])
    source = open_url("s3://images/slides/1.tif")
    torch.testing.assert_close(source.regions(box), open_image(slide).regions(box), rtol=0, atol=0)


def test_shards_are_read_in_parts(bucket, tmp_path, monkeypatch):
    records = load(spots := make_spots(tmp_path / "spots", 20))
    list(write_shards(records, tmp_path / "shards", plan_shards(records, 10**6)))
    for path in (tmp_path / "shards").iterdir():
        bucket.upload_file(str(path), "images", f"shards/{path.name}")
    members._shard.cache_clear()
    monkeypatch.setenv("SACCADE_CACHE_GB", "0.00005")  # no whole shard has room
    for record, original in zip(load("s3://images/shards").records, records.records, strict=True):
        assert record.image.name == original.image.name
        with at_hand(record.image) as file:
            assert Path(file).read_bytes() == (spots / "images" / record.image.name).read_bytes()


def test_what_is_not_there_is_said(bucket):
    with pytest.raises(UnreachableError, match=r"s3://images/gone.jpg: no such file or folder"):
        fetch("s3://images/gone.jpg")


def test_refused_credentials_are_said(bucket, endpoint):
    import requests

    # From the third request on, the server asks for rights that nobody has.
    requests.post(f"{endpoint}/moto-api/reset-auth", data=b"0", timeout=10)
    try:
        with pytest.raises(UnreachableError, match=r"refused \(.*\): check the credentials"):
            fetch("s3://images/a.jpg")
    finally:
        requests.post(f"{endpoint}/moto-api/reset-auth", data=b"inf", timeout=10)
