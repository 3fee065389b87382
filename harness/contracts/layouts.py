"""How brokers lie in containers (RIP-31): what a layout is, and Max-Q's own ones. Pure."""

import re
from collections.abc import Callable, Iterator

import msgspec

PAIR = 2  # brokers of a set without controllers
SETS_MAX, REPLICAS_MAX = 50, 9
_CONTAINER = re.compile(r"k\d{1,2}")  # also the name of its machine
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class LayoutKind(msgspec.Struct, frozen=True, kw_only=True):
    """A layout as it is asked for.

    Args:
        name: by which it is; folders of results are named by it.
        about: which brokers share a process, in a line.
        sets: how many broker sets there are.
        replicas: how many brokers each has where there are controllers; 0: as many as are asked
            for. Without controllers each has two.
        container_of: gives the container of a broker, by the numbers of its set and of its replica:
            ``k0``, ``k1`` and so on; empty: the broker is alone. Replica 0 is the master, or the
            first one.
    """

    name: str
    about: str
    sets: int
    replicas: int
    container_of: Callable[[int, int], str]

    @property
    def pairs_alone(self) -> bool:
        """Whether a container has two brokers of one set. Where controllers give ids, such brokers
        have the same identity, and a container refuses the second."""
        most = self.replicas or REPLICAS_MAX
        inside = [(s, self.container_of(s, r)) for s in range(self.sets) for r in range(most)]
        shared = [place for place in inside if place[1]]
        return len({*shared}) < len(shared)

    def check(self) -> None:
        """Refuse what is no layout.

        Raises:
            ValueError: says what is wrong.
        """
        for why in self._faults():
            raise ValueError(f"layout {self.name!r}: {why}")

    def _faults(self) -> Iterator[str]:
        if not _NAME.fullmatch(self.name):
            yield "a name has letters, digits, - and _"
        if not 1 <= self.sets <= SETS_MAX:
            yield f"sets={self.sets} is not 1 to {SETS_MAX}"
        if not 0 <= self.replicas <= REPLICAS_MAX:
            yield f"replicas={self.replicas} is not 0 to {REPLICAS_MAX}"
        names = set[str]()
        for s in range(self.sets):
            for r in range(max(PAIR, self.replicas or REPLICAS_MAX)):
                try:
                    name = self.container_of(s, r)
                except Exception as error:  # it is other people's code
                    yield f"container_of({s}, {r}): {type(error).__name__}: {error}"
                    return
                if name != "" and not _CONTAINER.fullmatch(str(name)):
                    yield f"container_of({s}, {r}) is {name!r}, and not empty, or k0 to k99"
                names.add(name)
        if names == {""}:
            yield "no broker is in a container"


def _crossed(containers: int) -> Callable[[int, int], str]:
    return lambda broker_set, replica: f"k{(broker_set + replica) % containers}"


CROSSED_2 = LayoutKind(
    name="crossed-2", sets=2, replicas=2, container_of=_crossed(2),
    about="two containers, each with a master of one set and a slave of the other",
)  # fmt: skip
CROSSED_3 = LayoutKind(
    name="crossed-3", sets=3, replicas=3, container_of=_crossed(3),
    about="three containers of three sets, each with a master of one set and slaves of others",
)  # fmt: skip
BUILT_IN = {
    kind.name: kind
    for kind in (
        CROSSED_2,
        CROSSED_3,
        LayoutKind(
            name="mixed", sets=2, replicas=2,
            container_of=lambda broker_set, replica: "k0" if replica else "",
            about="two sets: each master alone, the slaves in one container",
        ),
        LayoutKind(
            name="one", sets=1, replicas=0,
            container_of=lambda broker_set, replica: f"k{broker_set}",
            about="a whole set in one container, which one fault ends; in pairs alone",
        ),
    )
}  # fmt: skip
