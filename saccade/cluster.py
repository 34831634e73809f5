"""A cluster of Ray's that this process is connected to, and how many processes find room on it."""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from saccade.extras import require

HERE = "auto"
KNOCK_S = 10.0


class Node(NamedTuple):
    """One machine of it, by what Ray may deal out there."""

    cpus: int
    gpus: int


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Until the block ends: to the cluster at `address`, to the one of this machine (`auto`), or to one made for it.

    Whatever runs there for this process ends with the block.
    """
    require("ray", "--ray")
    if address.startswith("ray://"):
        raise ValueError(
            f"--ray {address}: Ray's client cannot do this; give the command on a machine of the cluster, or with "
            "`ray job submit`"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that begins here
    address = os.environ.get("RAY_ADDRESS", HERE) if address == HERE else address
    import ray

    try:
        _knock(address)
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"--ray {address}: no cluster answers ({reason}); begin one with `ray start --head`, or give --ray local"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Find out whether anybody listens: Ray itself would wait for minutes, deaf to Ctrl-C."""
    host, colon, port = address.rpartition(":")
    if colon:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()


def list_nodes() -> list[Node]:
    """Those that are alive."""
    import ray

    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Node(int(has.get("CPU", 0)), int(has.get("GPU", 0))) for has in alive]


def count_places(nodes: Sequence[Node], *, cpus: int, gpus: int) -> int:
    """How many processes, each with so many of a node, fit on all of them together.

    >>> count_places([Node(8, 0), Node(32, 4)], cpus=3, gpus=0), count_places([Node(8, 0), Node(32, 4)], cpus=3, gpus=1)
    (12, 4)
    """
    return sum(min(node.cpus // cpus, node.gpus // gpus if gpus else node.cpus) for node in nodes)
