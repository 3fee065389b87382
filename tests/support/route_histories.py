"""Histories of what name servers show of one broker set."""

from pair_histories import Told

from maxq.histories.observed import OBSERVE_ROUTE, RouteView, encoded

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
