"""What observers see change in a cluster, in words: who leads, who is in sync, who is listed.

Pure: it hears a history's operations, one by one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from maxq.histories.observed import (
    MASTER_ROLE,
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
)
from maxq.histories.op import Op

QUESTIONS = frozenset((OBSERVE_CONTROLLER, OBSERVE_REPLICA, OBSERVE_ROUTE))
SILENT = "does not answer"
NOT_LEADER = "CONTROLLER_NOT_LEADER"


class Changes:
    """What was seen last, of each node and set."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def take(self, op: Op) -> Iterator[str]:
        """What an operation shows that is not as it was, a line each."""
        if op.f not in QUESTIONS or op.type == "invoke":
            return
        for (who, what), seen in self._seen(op):
            before = self._known.get((who, what))
            if before != seen:
                self._known[who, what] = seen
                was = "" if before is None else f", was: {before}"
                yield f"{who} {what}{seen}{was}".strip()

    def _seen(self, op: Op) -> Iterator[tuple[tuple[str, str], str]]:
        value: Mapping[str, Any] = op.value
        node, key = value["node"], f"{op.value['node']}:"
        if op.type != "ok":
            leads = op.f == OBSERVE_CONTROLLER and NOT_LEADER in (op.error or ())
            yield (key, ""), "answers, and does not lead" if leads else _silence(op)
            return
        match op.f:
            case "observe-controller":
                yield (key, ""), "leads the controllers"
                for name, of in {**value["sets"], **value.get("by_address", {})}.items():
                    yield (f"{name}:", "by controllers "), _led(of)
            case "observe-replica":
                yield (key, ""), f"answers, as {_role(value)}"
            case "observe-route":
                yield (key, ""), "answers"
                for name, listed in value["sets"].items():
                    yield (f"{name}:", f"listed by {node} "), _listed(listed)
                for (who, what), _ in list(self._known.items()):
                    name = who.removesuffix(":")
                    if what == f"listed by {node} " and name not in value["sets"]:
                        yield (who, what), "not at all"


def _silence(op: Op) -> str:
    error = op.error or ("nothing",)
    return f"{SILENT} ({error[-1]})"


def _led(of: Mapping[str, Any]) -> str:
    """A set as its controllers have it."""
    master = of.get("master", of.get("master_address")) or "nobody"
    in_sync = ", ".join(map(str, of["sync_state_set"])) or "nobody"
    return f"master {master} in epoch {of['master_epoch']}, in sync: {in_sync}"


def _role(value: Mapping[str, Any]) -> str:
    acting = ", acting for its master" if value.get("acting") is True else ""
    alone = ", isolated" if value.get("isolated") is True else ""
    epochs = value.get("epochs") or ()
    epoch = f" in epoch {epochs[-1][0]}" if epochs else ""  # epoch, begin, end
    return f"{'master' if value['leads'] else 'slave'}{epoch}{acting}{alone}"


def _listed(addresses: Mapping[str, str]) -> str:
    """A set as a name server lists it."""
    master = addresses.get(MASTER_ROLE)
    others = [at for role, at in sorted(addresses.items()) if role != MASTER_ROLE]
    said = f"with master {master}" if master else "without a master"
    return f"{said}, slaves {', '.join(others)}" if others else said
