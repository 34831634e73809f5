"""Jobs on the machines of a Ray cluster: where `side_by_side` starts its commands if it is told so.

An actor for each job has so many cores, and a GPU if jobs need one; on its machine it does what is done on this one. So
the run holds the lock on its folder there, and a run that outlives its actor is waited for.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from saccade.cluster import Node, connected, count_places, list_nodes
from saccade.training.job_process import Lost, Order, ProcessHere, start_here

LOOK_EVERY_S = 0.2
WAIT_S = 5.0


class Host:
    """On the machine of the job; `run` lasts as long as it does, and the others are called meanwhile."""

    def __init__(self):
        self.process: ProcessHere | None = None
        self.begun = threading.Event()

    def here(self) -> None:
        """There is room, and the actor is there."""

    def run(self, order: Order) -> int | Lost:
        """Its exit code, or why there was none."""
        order = order._replace(command=(sys.executable, *order.command[1:]))  # this machine's
        self.process = start_here(order)
        self.begun.set()
        if self.process is None:
            time.sleep(WAIT_S)
            return Lost(f"waits for the process at work in {order.lock.stem}", gone=False)
        while (code := self.process.poll()) is None:
            time.sleep(LOOK_EVERY_S)
        self.process.close()
        return code

    def terminate(self) -> None:
        """Ask it to save and leave."""
        self.begun.wait()
        if self.process:
            self.process.terminate()

    def kill(self) -> None:
        """End it, and all that it has started."""
        self.begun.wait()
        if self.process:
            self.process.kill()


class ProcessThere(NamedTuple):
    """A job at work on a machine of the cluster, or waiting for room on one.

    here:  comes when it has a machine.
    ended: what `Host.run` will say.
    """

    host: Any
    here: Any
    ended: Any

    def poll(self) -> int | Lost | None:
        """Its exit code; None as long as it runs, or waits for room."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        if not ray.wait([self.ended], timeout=0)[0]:
            return None
        try:
            return ray.get(self.ended)
        except RayTaskError as error:
            raise error.cause from error
        except RayError:
            return Lost("its machine is gone, or what Ray had there; it is resumed as soon as there is room", gone=True)

    def terminate(self) -> None:
        """Ask it to save and leave; one that still waits for room shall not begin."""
        import ray

        if ray.wait([self.here], timeout=0)[0]:
            self.host.terminate.remote()
        else:
            ray.kill(self.host)

    def kill(self) -> None:
        """End it, and all that it has started."""
        import ray
        from ray.exceptions import RayError

        with suppress(RayError):
            ray.get(self.host.kill.remote(), timeout=10)

    def close(self) -> None:
        """Give its place back."""
        import ray

        ray.kill(self.host)


class Share(NamedTuple):
    """What a job has of its machine, and how many have that at once."""

    cpus: int
    gpus: int
    at_once: int

    def start(self, order: Order) -> ProcessThere:
        """Start it as soon as a machine has room."""
        import ray

        host: Any = ray.remote(Host)
        actor = host.options(num_cpus=self.cpus, num_gpus=self.gpus, max_concurrency=3).remote()
        threads = os.environ.get("OMP_NUM_THREADS") or str(self.cpus)
        order = order._replace(env={**order.env, "OMP_NUM_THREADS": threads})
        return ProcessThere(actor, actor.here.remote(), actor.run.remote(order))


def share_out(nodes: Sequence[Node], jobs: int, *, gpus: int) -> Share:
    """The cores of a cluster for so many jobs, or, where each needs `gpus` and there are any, its GPUs.

    >>> share_out([Node(8, 0), Node(8, 0)], 5, gpus=1), share_out([Node(32, 4)], 5, gpus=1)
    (Share(cpus=3, gpus=0, at_once=4), Share(cpus=8, gpus=1, at_once=4))
    """
    gpus = gpus if any(node.gpus for node in nodes) else 0
    if gpus:
        cpus = min(node.cpus * gpus // node.gpus for node in nodes if node.gpus)
    else:
        cpus = min(sum(node.cpus for node in nodes) // jobs, max((node.cpus for node in nodes), default=0))
    cpus = max(cpus, 1)
    places = count_places(nodes, cpus=cpus, gpus=gpus)
    if not places:
        raise ValueError(f"no machine of the cluster has the {cpus} cores and {gpus} GPUs that each run needs")
    return Share(cpus, gpus, min(jobs, places))


@contextmanager
def jobs_on_ray(address: str, jobs: int, *, gpus: int) -> Iterator[Share]:
    """What each of so many jobs has of a cluster."""
    with connected(address):
        yield share_out(list_nodes(), jobs, gpus=gpus)
