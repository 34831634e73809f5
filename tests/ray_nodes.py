"""A real Ray cluster on this machine, small enough for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import saccade

NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
ROOT = str(Path(saccade.__file__).parents[1])


class Nodes(NamedTuple):
    """A cluster, and its nodes that may be killed."""

    cluster: Any
    others: list[Any]

    @property
    def address(self) -> str:
        return self.cluster.address

    def kill_one(self) -> None:
        self.cluster.remove_node(self.others.pop(), allow_graceful=False)


@contextmanager
def three_nodes() -> Iterator[Nodes]:
    """Each has one core; they know this very package, and phone nobody."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", ROOT)
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
        try:
            yield Nodes(cluster, [cluster.add_node(**NODE) for _ in range(2)])
        finally:
            cluster.shutdown()
