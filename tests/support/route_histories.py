"""Histories of what name servers show of one broker set."""

from pair_histories import Told

from maxq.histories.fault_facts import RESET_CONNECTIONS
from maxq.histories.observed import OBSERVE_ROUTE, RouteView, encoded
from maxq.histories.op import NEMESIS

BOTH = {"0": "b0-0:1", "1": "b0-1:1"}
SLAVES = {"1": "b0-1:1", "2": "b0-2:1"}
SLAVE = {"1": "b0-1:1"}
ACTING = {"0": "b0-1:1"}
READ, READ_WRITE = 4, 6


class Routed(Told):
    """Answers of the name server n0 about one topic."""

    def shows(
        self,
        at: float,
        raw: dict[str, str],
        shown: dict[str, str] | None = None,
        *,
        perm: int,
        then: dict[str, str] | None = None,
        flagged: bool = True,
    ) -> int:
        """A raw table, what the route shows if it is something else, its permission, and the raw
        group after that if it is another one."""
        self.now = at
        view = RouteView(
            node="n0",
            sets={"b0": raw},
            perms={"t": {"b0": perm}},
            shown={} if shown is None else {"t": {"b0": shown}},
            groups={"b0": raw if then is None else then},
            acting=("b0",) if flagged else (),
        )
        return self.op("ok", 9, OBSERVE_ROUTE, {"node": "n0"}, encoded(view))


def writable() -> Routed:
    """A set without a master that may be written to, for two answers."""
    r = Routed()
    r.shows(1, SLAVE, perm=READ_WRITE)
    r.shows(2, SLAVE, perm=READ_WRITE)
    return r


def not_writable() -> Routed:
    """A master that is back and may not be written to, for two answers."""
    r = Routed()
    r.shows(1, SLAVE, ACTING, perm=READ)
    r.shows(2, BOTH, perm=READ)
    r.shows(3, BOTH, perm=READ)
    return r


def silent_listed(f: str = "pause") -> Routed:
    """A master that was silenced at 10 s and is listed at 16.5 s and later."""
    r = Routed()
    r.says(1, "b0-0", acting=False)
    r.shows(2, BOTH, perm=READ_WRITE)
    r.act(10, f, "b0-0")
    r.shows(15, BOTH, perm=READ_WRITE)
    r.shows(16.5, BOTH, perm=READ_WRITE)
    r.shows(17, BOTH, perm=READ_WRITE)
    r.act(40, "resume", "b0-0")
    return r


def wrong_shown(shown: dict[str, str] | None = None) -> Routed:
    """Of a dead master's slaves the larger one is shown, or somebody else."""
    r = Routed()
    for node in ("b0-0", "b0-1", "b0-2"):
        r.says(1, node, acting=False)
    r.shows(2, {"0": "b0-0:1", **SLAVES}, perm=READ_WRITE)
    r.act(10, "kill", "b0-0")
    r.shows(11, SLAVES, perm=READ)
    larger = {"0": "b0-2:1", "1": "b0-1:1"}
    r.shows(17, SLAVES, larger if shown is None else shown, perm=READ)
    r.act(40, "start", "b0-0")
    return r


class Listed(Told):
    """Raw tables of the broker set b0 by name servers, and acts with proofs."""

    def table(self, at: float, node: str, *roles: str) -> int:
        """A name server lists the set's brokers of these roles."""
        self.now = at
        view = RouteView(node=node, sets={"b0": {role: f"b0-{role}:1" for role in roles}})
        return self.op("ok", 9, OBSERVE_ROUTE, {"node": node}, encoded(view))

    def resets(self, at: float, one: str, other: str) -> None:
        """Connections of two nodes are reset, as the proofs of both say."""
        self.now = at
        self.begin(NEMESIS, RESET_CONNECTIONS, f"reset@{at}")
        proofs = {a: {"holds": True, "from": {b: 1}} for a, b in ((one, other), (other, one))}
        self.end("info", NEMESIS, RESET_CONNECTIONS, proofs)


def never_relisted() -> Listed:
    """A slave's connection is reset at 10 s, and it is not listed 37 s later."""
    r = Listed()
    r.says(1, "b0-1", acting=False)
    r.table(2, "n0", "0", "1")
    r.resets(10, "n0", "b0-1")
    for at in (12, 47):
        r.says(at, "b0-1", acting=False)
        r.table(at + 0.5, "n0", "0")
    r.says(48, "b0-1", acting=False)
    return r


def apart() -> Listed:
    """Two name servers list different brokers for 39 s after the last fault."""
    r = Listed()
    r.act(5, "pause", "b0-1")
    r.act(9, "resume", "b0-1")
    for at in (10, 48):
        r.table(at, "n0", "0", "1")
        r.table(at + 0.2, "n1", "0")
    r.table(49, "n0", "0", "1")
    return r


def restarted_without() -> Listed:
    """A name server is restarted at 10 s, and lists no slave 37 s later."""
    r = Listed()
    r.says(1, "b0-1", acting=False)
    r.table(2, "n0", "0", "1")
    r.act(10, "restart", "n0")
    r.says(46, "b0-1", acting=False)
    r.table(47, "n0", "0")
    r.says(48, "b0-1", acting=False)
    return r
