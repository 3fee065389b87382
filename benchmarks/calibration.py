"""How fast this machine is now, so that figures of different machines and hours can be compared."""

import time

WRITES = 2_000_000


def calibration_s() -> float:
    """Seconds of this process's own time for 2,000,000 writes into a dict that grows."""
    began = time.process_time()
    held = {}
    for n in range(WRITES):
        held[n] = n
    return time.process_time() - began
