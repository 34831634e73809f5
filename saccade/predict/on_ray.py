"""Images → lines, by processes on the machines of a Ray cluster; this one deals shards out and writes all files.

    names ─ shards, in order ─▶ workers: model and readers ─ lines, as they come ─▶ answers.3-of-160.jsonl, …

So a line is in its file once, whatever happens over there: a worker that dies, with its machine or alone, is replaced,
and its shard goes to the next one that is free, without the images that have a line already.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from saccade.cluster import Node, count_places
from saccade.predict.ray_worker import Answers, Question, Worker
from saccade.predict.shard_queue import Line, ShardQueue, Stretch, Task
from saccade.predict.shards import Shard

DEATHS = 3  # in a row, of workers at the same shard
SAY_AFTER_S = 20.0


class Team(NamedTuple):
    """How many workers there are, and what each has of its machine."""

    size: int
    cpus: int
    gpus: int

    @property
    def readers(self) -> int:
        """Processes that read ahead for each; the network has a core, too."""
        return self.cpus - 1


def choose_team(nodes: Sequence[Node], *, readers: int | None, device: str | None) -> Team:
    """A worker for each GPU, if there are any, or for every two cores; `readers` of each may be given.

    >>> choose_team([Node(8, 0), Node(32, 4)], readers=None, device=None)
    Team(size=4, cpus=8, gpus=1)
    >>> choose_team([Node(8, 0), Node(32, 4)], readers=3, device="cpu")
    Team(size=10, cpus=4, gpus=0)
    """
    gpus = int(any(node.gpus for node in nodes) if device is None else not device.startswith("cpu"))
    usual = min((node.cpus // node.gpus for node in nodes if node.gpus), default=1) if gpus else 2
    most = max((node.cpus for node in nodes), default=0)
    cpus = max(1, min(usual, most)) if readers is None else readers + 1
    size = count_places(nodes, cpus=cpus, gpus=gpus)
    if not size:
        raise ValueError(
            f"no machine of the cluster has {cpus} cores{' and a GPU' * gpus} for a model and its {cpus - 1} readers: "
            "give fewer --workers, or another --device"
        )
    return Team(size, cpus, gpus)


class _Hand(NamedTuple):
    """A worker and what it was given, which ends with `closing`; nothing yet while it loads the model."""

    worker: Any
    stretch: Stretch | None
    task: Task | None
    closing: ExitStack


class Dealer:
    """Deals the shards of a queue to workers until all are whole.

    resumed: is told how many lines of a shard were there, and how many of them are errors.
    """

    def __init__(
        self,
        question: Question,
        team: Team,
        queue: ShardQueue,
        *,
        resumed: Callable[[int, int], None] = lambda done, failed: None,
        say: Callable[[str], None] = print,
    ):
        self.question, self.team, self.queue, self.resumed, self.say = question, team, queue, resumed, say
        self._answers: Answers | None = None
        self._hands: dict[Any, _Hand] = {}  # by what it is awaited with
        self._deaths = Counter[Shard | None]()
        self._open = ExitStack()
        self._waits = False

    def lines(self) -> Iterator[Line]:
        """Lines as they come, each in its file already."""
        with self._open:
            for _ in range(min(self.team.size, len(self.queue.shards) - len(self.queue.whole))):
                self._enlist()
            while not self.queue.are_whole:
                for reference in self._wait():
                    yield from self._hear(reference)

    def _enlist(self) -> None:
        """One more worker; it begins when there is room for it."""
        import ray

        actor: Any = ray.remote(num_cpus=self.team.cpus, num_gpus=self.team.gpus)(Worker)
        worker = actor.remote(self.question)
        self._hands[worker.load.remote()] = _Hand(worker, None, None, ExitStack())

    def _wait(self) -> Sequence[Any]:
        """Whatever has come."""
        import ray

        all_of_them = [*self._hands]
        some, _ = ray.wait(all_of_them, num_returns=1, timeout=SAY_AFTER_S)
        if not some and not self._answers and not self._waits:
            self._waits = True
            self.say(f"no worker has begun yet; what each needs: cores {self.team.cpus}, GPUs {self.team.gpus}")
        return ray.wait(all_of_them, num_returns=len(all_of_them), timeout=0)[0] if some else []

    def _hear(self, reference: Any) -> Sequence[Line]:
        """Take what a worker has to say, and write down its lines."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        hand = self._hands.pop(reference)
        try:
            came: Any = ray.get(next(reference) if hand.task else reference)
        except StopIteration:
            hand.closing.close()
            self._deal(hand.worker)
        except RayTaskError as error:  # it lives, and what it was asked is wrong
            raise error.cause from error
        except RayError as error:
            self._bury(hand, error)
        else:
            if hand.task:
                hand.task.write(came)
                del self._deaths[hand.stretch and hand.stretch.shard]
                self._hands[reference] = hand
                return came
            self._meet(came)
            self._deal(hand.worker)
        return ()

    def _meet(self, answers: Answers) -> None:
        """A worker has its model, which must be that of the others and of what is done."""
        if self._answers is None:
            self.queue.check(*answers)
            self._answers = answers
        if answers != self._answers:
            raise ValueError(f"{self.question.run} is not the same model on all machines: copy it anew")
        del self._deaths[None]

    def _deal(self, worker: Any) -> None:
        """Give it the next shard that has anything to do, or let it go."""
        import ray

        assert self._answers
        while stretch := self.queue.take():
            closing = self._open.enter_context(ExitStack())
            task = closing.enter_context(self.queue.work_on(stretch, *self._answers))
            if not stretch.again:
                self.resumed(task.done, task.failed)
            if task.names:
                self._hands[worker.answer.remote(task.names)] = _Hand(worker, stretch, task, closing)
                return
            closing.close()
        ray.kill(worker)

    def _bury(self, hand: _Hand, error: Exception) -> None:
        """Somebody else shall do it."""
        import ray

        hand.closing.close()
        with suppress(ValueError):
            ray.kill(hand.worker)  # if only the way to it broke, it shall not go on
        shard = hand.stretch and hand.stretch.shard
        self._deaths[shard] += 1
        if self._deaths[shard] == DEATHS:
            where = f"at {hand.task.names[0]} or soon after" if hand.task else "while loading the model"
            reason = str(error).strip().splitlines()[0]
            raise OSError(f"{DEATHS} workers in a row died {where} ({reason}): --resume continues after what is done")
        if hand.stretch:
            self.queue.put_back(hand.stretch)
        self._enlist()
