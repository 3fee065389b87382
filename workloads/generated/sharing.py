"""The rows of a history, made by several processes at a time.

Each process goes through the whole history, which without texts is quick, and makes the texts of
every so-manieth piece. They are sent in order of the history, so that the bytes are the same for
any number of processes. A process that is ahead waits until its piece is taken.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from maxq.workloads.generated.asked.request import Planted, Request
from maxq.workloads.generated.columns.sinks import Chunk, Form
from maxq.workloads.generated.columns.spool import Spool
from maxq.workloads.generated.history import Maker
from maxq.workloads.generated.world import Outcome, Piece, Task

Plan = Mapping[int, Sequence[Task]]


class _Work(NamedTuple):
    """What is made: the history, its form, and where temporary files are."""

    request: Request
    plan: Plan
    form: Form
    folder: Path | None


class Coming:
    """A history that is being made. Once all its chunks were taken, `ops` are the operations of
    clients in rounds, and `planted` is what was planted, by number of task.

    Args:
        request: what is asked for.
        plan: what to plant in which round.
        form: in which its rows are wanted.
        folder: where temporary files are; None: where the system has them.
    """

    def __init__(self, request: Request, plan: Plan, form: Form, folder: Path | None) -> None:
        self._work = _Work(request, plan, form, folder)
        self.ops = 0
        self.planted: dict[int, Planted] = {}

    def chunks(self, jobs: int) -> Iterator[Chunk]:
        """All rows, made by so many processes: this one, if it is one.

        Raises:
            OSError: a temporary file could not be written.
        """
        if jobs == 1:
            for turn in _turns(self._work, 0, 1):
                yield from self._taken(turn)
            return
        context = get_context("spawn")
        ends = [context.Pipe(duplex=False) for _ in range(jobs)]
        workers = [
            context.Process(target=_send, args=(into, self._work, n, jobs), daemon=True)
            for n, (_, into) in enumerate(ends)
        ]
        try:
            for worker in workers:
                worker.start()
            for _, into in ends:
                into.close()  # so that the end of a worker is the end of what it sends
            yield from self._received([out for out, _ in ends])
        finally:
            for worker in workers:
                if worker.pid is not None:
                    worker.terminate()
                    worker.join()

    def _received(self, ends: Sequence[Connection]) -> Iterator[Chunk]:
        """What each process sends, in turn, until all have said that they are over."""
        left = set(ends)
        for end in cycle(ends):
            if not left:
                return
            if end in left:
                try:
                    found = end.recv()
                except EOFError:
                    raise OSError("a process that makes a part of the history ended") from None
                if isinstance(found, OSError):
                    raise found
                if isinstance(found, Outcome):
                    left.remove(end)
                yield from self._taken(found)

    def _taken(self, found: "list[Chunk] | Outcome") -> list[Chunk]:
        if not isinstance(found, Outcome):
            return found
        self.ops = found.ops
        for number, planted in found.planted.items():
            if planted.ops or number not in self.planted:  # who made its rows knows their indices
                self.planted[number] = planted
        return []


def _send(into: Connection, work: _Work, mine: int, jobs: int) -> None:
    """A process: make a part of the pieces, and send them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's: the parent's to act on
    try:
        for turn in _turns(work, mine, jobs):
            into.send(turn)
    except BrokenPipeError:
        """The parent has ended."""
    except OSError as error:
        into.send(error)


def _turns(work: _Work, mine: int, jobs: int) -> Iterator[list[Chunk] | Outcome]:
    """Every so-manieth piece, with those that follow it, and what came of them all."""
    spool = Spool(work.folder, work.request.sets)
    maker = Maker(work.request, work.plan, spool)
    turn, held = -1, list[Chunk]()
    try:
        for piece in maker.pieces():
            if not piece.follows:
                if turn % jobs == mine and turn >= 0:
                    yield held
                turn, held = turn + 1, []
            if turn % jobs == mine:
                held += _chunks(work.form, piece)
        if turn % jobs == mine:
            yield held
        yield maker.world.outcome
    finally:
        spool.close()


def _chunks(form: Form, piece: Piece) -> list[Chunk]:
    batch = piece.batch()
    if len(batch) != piece.rows:
        raise AssertionError(f"{len(batch)} rows, {piece.rows} counted")
    return form.chunks(batch, piece.first)
