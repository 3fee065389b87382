"""What a schedule will do, for people: when each act is due, as far as that is known, and to whom.

An act that follows another one waits for its end, so real times are later by what acts take; one
that follows an event has no time before it happens.
"""

import math
from collections.abc import Sequence

from maxq.harness.schedule.format import START, Act


def times(acts: Sequence[Act]) -> list[float]:
    """When each act is due (s of the main part); infinite where that depends on an event."""
    due: dict[str, float] = {START: 0.0}
    for act in acts:
        due[act.id] = due.get(act.when.after, math.inf) + act.when.at
    return [due[act.id] for act in acts]


def in_order(acts: Sequence[Act]) -> list[tuple[float, Act]]:
    """The acts with their times, as they are due."""
    return sorted(zip(times(acts), acts, strict=True), key=lambda pair: pair[0])


def whom(act: Act) -> str:
    """Whom an act concerns, and how, in a few words."""
    who = act.who
    if who.of:
        share = "" if who.share == "all" else f"the {who.share} of "
        words = [f"ends {who.of}" if not share else f"{share}those of {who.of}"]
    elif who.nodes:
        words = [", ".join(who.nodes)]
    elif who.part:
        words = [f"{who.count} x {who.part}" if who.count > 1 else f"the {who.part}"]
        words = [words[0].replace("the slave", "a slave").replace("the namesrv", "a name server")]
    else:
        words = []
    args = {"leaves a majority" if name == "keeps" else name: v for name, v in act.args.items()}
    told = (name if v is True else f"{name} {v}" for name, v in args.items() if v is not False)
    return ", ".join([*words, *told])
