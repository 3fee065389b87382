"""In which order everything is healed when a run's main part is over.

Machines first, then cuts, then pauses, then addresses, then starts: a broker of RocketMQ that is
started under a cut waits for name servers and controllers that do not answer, and one nemesis does
everything in a run. Within a run drawn heals keep the same order: they wait while a cut is in
effect (`maxq.harness.schedule.format.When`). No heal is brought forward: a cut that ended with the
start of a node killed 2 s before would be too short for an election.
"""

from collections.abc import Iterable

from maxq.harness.schedule.format import Act
from maxq.histories.fault_facts import Effect, Kinds

# What is healed, in order.
ORDER: tuple[Effect, ...] = ("disk", "slow", "clock", "cut", "held", "address", "degraded", "down")


def final_heals(acts: Iterable[Act], kinds: Kinds) -> list[str]:
    """The heals that end every fault of a schedule.

    Args:
        acts: of the schedule. A change of address for good is not undone.
        kinds: their facts.
    """
    names = [act.f for act in acts if not act.args.get("stays")]
    asked = [facts for f in names if (facts := kinds.of(f)) is not None]
    found = dict.fromkeys(heal for facts in asked for heal in facts.heals)
    found |= dict.fromkeys(f for f in names if kinds.ended_by(f))
    if any(facts.may_end_by for facts in asked):  # it may have ended its node
        found |= dict.fromkeys(kinds.starting)
    return sorted(found, key=lambda heal: _place(heal, kinds))


def _place(heal: str, kinds: Kinds) -> int:
    places = [ORDER.index(k.effect) for k in kinds.ended_by(heal) if k.effect in ORDER]
    return max(places, default=-1)
