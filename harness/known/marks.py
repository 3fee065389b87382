"""What one broker's log shows of known causes: lines, and what they say.

As `detectors`, in the wordings of 5.5.0. `causes` says which anomalies these explain.
"""

import re
from collections.abc import Sequence

from maxq.harness.known.detectors import CUT, STARTED, broker
from maxq.harness.known.run_artifacts import DAY_S, Event, seconds

LOCAL = "local epoch entries is"
NEW_HA_ADDRESS = "update master ha address"
LEAVES = (STARTED, "Begin to change to")
OPEN = 2**63 - 1  # as the end of an epoch: it has none yet
STAYS_S = 10.0  # it looks for its master every 5 s
NO_NUMBER, NO_IDENTITY = "Cannot parse null string", "Read metadata file failed"
EMPTY_EPOCHS = broker(NO_NUMBER, r"CheckpointFile\.read")
EMPTY_IDENTITY = broker(NO_IDENTITY)
_ENDS = re.compile(r"endOffset=(\d+)")


def stays_with_deposed(log: Sequence[Event]) -> int:
    """Addresses of a new master that a slave learnt and did not connect to: not for `STAYS_S`, or
    not before it learnt another one or its log ended."""
    count, wanted, since = 0, "", 0.0
    for at, text in log:
        line = text.partition("\n")[0]
        if NEW_HA_ADDRESS in line:
            count += bool(wanted)
            wanted, since = new_ha_address(line), seconds(at)
        elif any(t in line for t in (*LEAVES, f"connect to master {wanted}")):
            count += bool(wanted) and (seconds(at) - since) % DAY_S > STAYS_S
            wanted = ""
    return count + bool(wanted)


def new_ha_address(line: str) -> str:
    """The address of another master than before, that a slave learnt; empty: it was the first,
    or the same."""
    old, _, new = line.partition("OLD: ")[2].partition(" NEW: ")
    return new if "null" not in (old, new) and old != new else ""


def cut_off_and_back(log: Sequence[Event]) -> int:
    """Starts after which a log ends behind the byte at which it had been cut last, with nothing
    copied in between that the log shows: a cut, a start, and a list that ends further on."""
    cut, started, count = -1, False, 0
    for _, text in log:
        if CUT in text:
            cut, started = cut_to(text), False
        elif STARTED in text:
            started = cut >= 0
        elif started and LOCAL in text:
            count += cut < last_end(text) < OPEN
            cut, started = -1, False
    return count


def cut_to(text: str) -> int:
    """To which byte a log was cut, by a line."""
    found = re.search(rf"{CUT} (\d+)", text)
    return int(found[1]) if found else -1


def last_end(text: str) -> int:
    """Where the last entry of a line's list ends; 0: there is none."""
    ends = _ENDS.findall(text)
    return int(ends[-1]) if ends else 0
