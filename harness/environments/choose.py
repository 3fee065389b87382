"""Which environment a run takes that names none: the first that can do what is asked, here and now.

Pure. `maxq.harness.run.doctor` finds the facts out, by trying; the words are the same wherever they
are
printed: by a run, by `maxq doctor`, and in the error where no environment can.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from maxq.harness.contracts.environment import Capability, Lack

AUTO = "auto"
DOCKER, LOCAL, SIMULATED = "docker", "local", "simulated"
ORDER = (DOCKER, LOCAL, SIMULATED)  # from most like production to what works anywhere
ENVIRONMENTS = (AUTO, *ORDER)  # Max-Q's own, as they may be asked for
WHAT_MAX = 300  # characters of what is missing: an engine's complaint may be a whole log


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a run asks of an environment: capabilities of its faults, how many machines, and what
    runs on them. `lasting`: the cluster stays up for people to enter."""

    needs: frozenset[Capability]
    machines: int
    target: str
    lasting: bool = False


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an environment on this machine.

    `lacks` is what keeps it from hosting anything; `could` what it can do where nothing is missing,
    `lacking` what of that is missing here. `only` is the one target that it runs, empty if it runs
    all; `lasting`: its clusters exist outside of a run. `given` says what it runs on.
    """

    environment: str
    could: frozenset[Capability]
    lacking: Mapping[Capability, Lack] = {}
    lacks: tuple[Lack, ...] = ()
    machines_max: int
    only: str = ""
    lasting: bool = True
    given: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an environment can do what is asked; if not, what it lacks for that. `given` says
    what it runs on, `able` what it can do and cannot."""

    environment: str
    lacks: tuple[Lack, ...]
    given: str
    able: str

    @property
    def works(self) -> bool:
        return not self.lacks

    @property
    def line(self) -> str:
        """Of one that works what it can do; else what is missing, and the command that mends it."""
        if self.works:
            return f"{self.environment}: {self.given}; {self.able}"
        what = ", ".join(_short(lack.what) for lack in self.lacks)
        return "; ".join([f"{self.environment}: {what}", *_mending(self.lacks)])


class Choice(msgspec.Struct, frozen=True):
    """The environment to take, empty if there is none, and the lines that say why: one for each
    environment before it, and one for itself."""

    environment: str
    lines: tuple[str, ...]


def decide(asked: Asked, facts: Facts) -> Decision:
    """Whether an environment of these facts can do what is asked."""
    return Decision(
        environment=facts.environment,
        lacks=tuple(dict.fromkeys([*facts.lacks, *_unfit(asked, facts)])),
        given=facts.given,
        able=_able(facts),
    )


def preferred(decisions: Sequence[Decision]) -> Choice:
    """The first environment that works, of decisions in the order of preference."""
    lines: list[str] = []
    for decision in decisions:
        if decision.works:
            line = f"environment: {decision.environment} (chosen by auto: {decision.given})"
            return Choice(decision.environment, (*lines, line))
        lines.append(decision.line)
    return Choice("", (*lines, "environment: none can do what is asked"))


def _unfit(asked: Asked, facts: Facts) -> Iterable[Lack]:
    """What is asked and this environment cannot do, whether it could host another run or not."""
    if facts.only and asked.target != facts.only:
        yield Lack(f"it runs {facts.only} nodes only, not {asked.target}")
    if asked.lasting and not facts.lasting:
        yield Lack("a cluster is there only during a run")
    if asked.machines > facts.machines_max:
        yield Lack(f"it holds {facts.machines_max} machines at most, not {asked.machines}")
    for capability in sorted(asked.needs, key=lambda c: c.value):
        if capability in facts.lacking:
            yield facts.lacking[capability]
        elif capability not in facts.could:
            yield Lack(f"it cannot do {capability.value}")


def _able(facts: Facts) -> str:
    can = facts.could - facts.lacking.keys()
    text = f"can {', '.join(sorted(c.value for c in can))}"
    for capability, lack in facts.lacking.items():
        text += f"; cannot {capability.value}: {lack}"
    return text


def _mending(lacks: Sequence[Lack]) -> list[str]:
    """Commands, without repetition; all packages in one."""
    packages = list(dict.fromkeys(lack.package for lack in lacks if lack.package))
    commands = [f"apt-get install {' '.join(packages)}"] if packages else []
    return list(dict.fromkeys([*commands, *(lack.mend for lack in lacks if lack.mend)]))


def _short(text: str) -> str:
    """One line of it, of a bearable length: the begin, where it says what failed, and the end,
    where it says why."""
    line = " ".join(text.split())
    if len(line) <= WHAT_MAX:
        return line
    half = (WHAT_MAX - len(" ... ")) // 2
    return f"{line[:half]} ... {line[-half:]}"
