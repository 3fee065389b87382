"""Generators and the ways to combine them: ``from maxq.harness import generators as gen``.

Names and semantics follow jepsen-io/generator, with an underscore where Python has the name
already. Differences: durations are nanoseconds, `then` takes first what comes first, a `mix`
passes over what is pending, and `flip_flop` and `mix` pass updates on.
"""

from maxq.harness.generators.flow import (
    any_of,
    cycle,
    flip_flop,
    limit,
    mix,
    once,
    repeat,
    until_ok,
)
from maxq.harness.generators.lift import EMPTY, Source, concat, lift, log, sleep
from maxq.harness.generators.threads import (
    clients,
    each_thread,
    nemesis,
    on_threads,
    phases,
    process_limit,
    reserve,
    synchronize,
    then,
)
from maxq.harness.generators.timing import SECOND_NS, delay, stagger, time_limit
from maxq.harness.generators.transform import (
    IllFormed,
    f_map,
    filter_,
    map_,
    on_update,
    trace,
    validate,
)

__all__ = [
    "EMPTY",
    "SECOND_NS",
    "IllFormed",
    "Source",
    "any_of",
    "clients",
    "concat",
    "cycle",
    "delay",
    "each_thread",
    "f_map",
    "filter_",
    "flip_flop",
    "lift",
    "limit",
    "log",
    "map_",
    "mix",
    "nemesis",
    "on_threads",
    "on_update",
    "once",
    "phases",
    "process_limit",
    "repeat",
    "reserve",
    "sleep",
    "stagger",
    "synchronize",
    "then",
    "time_limit",
    "trace",
    "until_ok",
    "validate",
]
