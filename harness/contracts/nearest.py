"""Wrong names are answered with the nearest right ones."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """The names that a wrong one may have meant, as the rest of a sentence."""
    close = difflib.get_close_matches(str(word), list(known), n=2, cutoff=0.5)
    return f", did you mean {' or '.join(close)}?" if close else ""
