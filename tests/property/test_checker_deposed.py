"""Readers beside a deposed master, and logs that get old: right histories blame nobody (S16).

A model of one queue of b0: each master goes on with its predecessor's log, so nothing that was
acknowledged is ever lost. Who was deposed may answer readers on, with messages that nobody
acknowledged at offsets where its successor has others. What is old is deleted.
"""

from typing import Any

from cluster_recorder import Cluster, set_view
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import under

from maxq.checkers.messages.durability import Durability

READERS = (1, 2)
LOSSES = ("lost-write", "lost-tail", "hidden-loss")


class Model(Cluster):
    """The log of who leads, what a deposed master has beside it, and how far readers are."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = self.young = 0
        self.value = 100
        self.log: list[int] = []
        self.stale: list[int] | None = None  # the log of who was deposed, if it answers still
        self.at = dict.fromkeys(READERS, 0)
        for reader in READERS:
            self.assign(reader, 0)
        self.elect()

    def elect(self) -> None:
        self.report()
        self.epoch += 1
        self.stale = [*self.log] if self.epoch > 1 else None
        self.report()

    def report(self) -> None:
        leader = 1 + self.epoch % 2
        self.controllers(set_view(max(self.epoch, 1), self.epoch, leader, 1, 2))

    def put(self) -> None:
        self.value += 1
        self.log.append(self.value)
        self.send(0, self.value, len(self.log) - 1, **self._by(self.epoch))

    def put_aside(self) -> None:
        """A send that a deposed master appends, and never answers."""
        if self.stale is not None:
            self.value += 1
            self.stale.append(self.value)
            asked = [["send", 0, self.value]]
            self.op("info", self.value, "send", asked, asked)

    def read(self, reader: int, count: int, *, aside: bool) -> None:
        log, epoch = self.log, self.epoch
        if aside and self.stale is not None:
            log, epoch = self.stale, self.epoch - 1
        first = max(self.at[reader], self.young)
        given = [(at, log[at]) for at in range(first, min(first + count, len(log)))]
        if given:
            self.poll(reader, *given, **self._by(epoch))
            self.at[reader] = given[-1][0] + 1

    def trim(self, young: int) -> None:
        self.young = max(self.young, min(young, len(self.log)))
        proof = {"holds": True, "start": 0, "aged-to": 9, "files": 1, "young": [[0, self.young]]}
        self.begin("nemesis", "trim", "t")
        self.end("info", "nemesis", "trim", {"b0-0": proof})

    def finish(self) -> None:
        """Nobody is deposed any more, and all is read."""
        self.report()
        self.assign(1, 0, seek=True)
        self.at[1], self.stale = 0, None
        self.put()
        self.read(1, len(self.log), aside=False)
        self.poll(1, end={0: len(self.log)}, **self._by(self.epoch))
        self.report()

    def _by(self, epoch: int) -> dict[str, Any]:
        return {"node": "b0", "broker": f"x{1 + epoch % 2}:1"}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "aside", "read", "read", "read aside", "elect", "trim"]),
        st.sampled_from(READERS),
        st.integers(1, 6),
    ),
    max_size=40,
)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_who_was_shown_the_message_of_a_deposed_master_lost_nothing(steps: list[Any]) -> None:
    model = Model()
    for what, reader, number in steps:
        if what == "put":
            model.put()
        elif what == "aside":
            model.put_aside()
        elif what == "elect":
            model.elect()
        elif what == "trim":
            model.trim(len(model.log) - number)
        else:
            model.read(reader, number, aside=what == "read aside")
    model.finish()

    verdict = Durability().check(model.history, under("P-DEFAULT"))
    assert verdict.of("broken") == (), [a.story for a in verdict.anomalies]
    assert not {name: n for name, n in verdict.counts.items() if name in LOSSES and n}
