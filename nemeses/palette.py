"""The colour of each fault's band in reports, by the operation that begins it.

One place, because a report is drawn from a stored history, without the nemesis that did it. Whoever
adds a fault adds its colour here. Light tints, as Jepsen's: they lie over plots in both themes.
"""

BANDS = {
    "kill": "#E9A4A0",
    "terminate": "#E8C39A",
    "restart": "#D9C79A",
    "pause": "#C5A0E9",
    "power-loss": "#B7A6D9",
    "start-partition": "#A0E9C9",
    "change-ip": "#A0C8E9",
    "bump-clock": "#E9DCA0",
    "start-disk-fault": "#C9B8A8",
    "start-delay": "#A0E0E9",
}
# For faults of other harnesses, or of later versions.
STRANGE = ("#E9A0C8", "#C3E9A0", "#D8D8B0", "#B0D8D0", "#D0B0C0")


def band(f: str) -> str:
    """The colour of a fault's band; of one that is not known, always the same of a few."""
    return BANDS.get(f) or STRANGE[sum(map(ord, f)) % len(STRANGE)]
