"""Processes that train together, perhaps on several machines: that they belong together, and what if one is gone.

A machine that dies closes its connections, and the others hear of it at once. One that is cut off says nothing, so the
connections are asked every few seconds (TCP's keepalive, which nobody sets: torch would wait for half an hour). Either
way training ends with one line on each of the others, and the same commands resume it at the last checkpoint.
"""

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256

import psutil
import torch.distributed as dist
from lightning.fabric import Fabric
from rich.console import Console

from saccade.data.dataset import ImageDataset
from saccade.files import shown, told
from saccade.plain_trees import differences
from saccade.runs import RunFolder
from saccade.training.folder import settings
from saccade.training.recipe import Recipe

GONE_S = 30  # without an answer, and a connection counts as broken
ASK_S = 5
SEEN_S = 60  # until a file of one machine is seen on another: network file systems remember what was not there


def check_processes(recipe: Recipe) -> None:
    """Refuse another number of processes than torchrun started: each would train by itself."""
    if not dist.is_torchelastic_launched():
        return
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if (recipe.nodes * local, recipe.devices) != (world, local):
        raise ValueError(
            f"torchrun started {world} processes, {local} on each machine, and the recipe says devices "
            f"{recipe.devices} on nodes {recipe.nodes}: give --devices {local} --nodes {world // local}"
        )


def launch(fabric: Fabric, recipe: Recipe, console: Console) -> None:
    """Come together with the other processes, which come here by themselves or are started now."""
    if recipe.nodes > 1:
        first = os.environ.get("MASTER_ADDR", "")
        if not first:
            raise ValueError(
                f"nodes is {recipe.nodes}, and nobody said where the first machine is: start training with torchrun "
                "and its --master-addr on each of them (docs/training.md)"
            )
        # Otherwise gloo takes the address of the machine's own name, which is often 127.0.0.1 or 127.0.1.1.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface_to(first))
        console.print(f"waiting for {recipe.nodes} machines, the first of them {shown(first)}", highlight=False)
    with naming_lost(recipe):
        fabric.launch()
    if recipe.nodes > 1 and sys.platform == "linux":
        _watch_connections()


def _interface_to(address: str) -> str:
    """The name of the network interface through which an address is reached."""
    family, kind, _, _, place = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as asked:
        asked.connect(place)  # sends nothing
        own = asked.getsockname()[0]
    named = {each.address: name for name, addresses in psutil.net_if_addrs().items() for each in addresses}
    return named[own]


def _watch_connections() -> None:
    """Have Linux find out whether the other end of each connection of this process is still there."""
    assert sys.platform == "linux"  # others have no such options
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status != psutil.CONN_ESTABLISHED:
            continue
        with socket.socket(fileno=os.dup(connection.fd)) as line:  # options are those of the connection
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, ASK_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ASK_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, GONE_S // ASK_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * GONE_S)  # the same for what is sent


@contextmanager
def naming_lost(recipe: Recipe) -> Iterator[None]:
    """If another process is lost in the block, say so in one line."""
    try:
        yield
    except RuntimeError as error:
        # gloo's errors have no class of their own, but all name the line of gloo that raised them.
        if recipe.devices * recipe.nodes == 1 or not (isinstance(error, dist.DistError) or "/gloo/" in str(error)):
            raise
        raise ConnectionError(
            f"another process of this run has ended or cannot be reached ({told(error)}); see what it said. All is "
            "saved up to the last checkpoint: the same command on each machine resumes there"
        ) from error


def check_alike(fabric: Fabric, recipe: Recipe, data: Mapping[str, ImageDataset]) -> None:
    """Refuse a process that has other settings or other images than the first: steps of one run would be of two."""
    if fabric.world_size == 1:
        return
    mine = {**settings(recipe), "images": {split: _digest(images) for split, images in data.items()}}
    if lines := differences(fabric.broadcast(mine), mine):
        raise ValueError(
            f"this process is to train otherwise than the first one ({'; '.join(lines)}): give the same command and "
            "the same images on each machine, and --steps, which each would choose by its own speed"
        )


def _digest(images: ImageDataset) -> str:
    root = images.records.root
    names = [(os.path.relpath(record.image, root), record.label) for record in images.records.records]
    return f"{len(names)} images {sha256(repr(names).encode(errors='surrogateescape')).hexdigest()[:8]}"


def check_shared(fabric: Fabric, files: RunFolder) -> None:
    """Refuse a run folder that is not the one which the first process has claimed."""
    fabric.barrier()
    until = time.monotonic() + SEEN_S
    while not files.is_run:
        if time.monotonic() > until:
            raise _not_shared(files)
        time.sleep(1)


def check_same_step(fabric: Fabric, first: int, files: RunFolder) -> None:
    """Refuse checkpoints that are not those of the first process."""
    if fabric.broadcast(first) != first:
        raise _not_shared(files)


def _not_shared(files: RunFolder) -> ValueError:
    return ValueError(
        f"{files.path} is not the folder that the first process writes: give --out on a disk that all machines share"
    )
