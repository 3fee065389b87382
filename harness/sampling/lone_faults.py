"""One run in four has a lone fault: of one kind, longer in effect than three time-outs.

Many claims say what holds once something was so for a while: a silent broker is dropped, a silent
master replaced, a lock that ran out granted. Where one fault follows the other there is never time
for them. Here there is peace before the fault, and after it. Which fault it is follows from the
seed's number alone, in turn; a seed means the same whatever was found before.
"""

from maxq.harness.contracts.keyed_draws import Keyed

LONE = "lone"  # a pace: peace before the fault, and peace after it
# The faults in turn. Those that only end, hold and start processes are most: after others no lock
# is sure to have been left alone.
FAULTS: tuple[dict[str, str], ...] = (
    {"crash": "kill"},
    {"hang": "pause"},
    {"cut": "both", "cut-shape": "isolate"},
    {"crash": "power-loss"},
    {"cut": "both", "cut-shape": "link", "cut-packets": "reset"},
    {"crash": "stop"},
    {"whole-stop": "power-loss"},
    {"hang": "pause"},
    {"disk": "slow"},
    {"crash": "power-loss"},
    {"cut": "in", "cut-shape": "role"},
    {"crash": "kill"},
    {"move": "live"},
    {"whole-stop": "kill"},
    {"clock": "jump"},
    {"crash": "restart"},
    {"link-delay": "on"},
    {"disk": "full"},
    {"epochs": "removed"},
)
# Whom it strikes: each of these is missed by somebody.
MISSED = ("master", "master", "master", "master", "slave", "slave", "namesrv", "namesrv",
          "controller-leader", "controller")  # fmt: skip
MISSED_OF_PAIRS = tuple(part for part in MISSED if not part.startswith("controller"))
# What lets it be seen: nothing else changes, somebody always writes, and with two name servers one
# can be compared with the other. Half of the runs have slaves that act.
AROUND: dict[str, tuple[str, ...]] = {
    "pace": (LONE,), "aim": ("any",), "trigger": ("time",), "heal": ("whole",),
    "retention": ("off",), "first-load": ("normal",), "load": ("steady",),
    "topology": ("3c-3r-2n", "3c-3r-2n", "3c-3r", "3c-2r", "3c-3r-2s", "3e-3r"),
    "acting": ("on", "off"), "shown": ("on",),
}  # fmt: skip


def lone_values(seed: int, turn: int) -> dict[str, str]:
    """Values of the factors of a run with a lone fault.

    Args:
        seed: keys what is drawn.
        turn: which of the faults it is, round and round.
    """
    draws = Keyed(seed)
    around = {name: draws.choice(values, "lone", name) for name, values in AROUND.items()}
    return {**around, **FAULTS[turn % len(FAULTS)]}
