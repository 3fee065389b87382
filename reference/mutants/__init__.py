"""Wrong on purpose: seeded bugs that every checker must catch, loaded by name.

A mutant is a module with a context manager `mutant` that replaces one existing attribute of a core
class or policy for its length, and a docstring that says which real bug it stands for and which
claim it breaks. Nothing imports a mutant. A node that runs one says so in its runtime info.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


def names() -> list[str]:
    """All mutants."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def load(name: str) -> AbstractContextManager[None]:
    """Load a mutant; it acts while entered.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in names():
        raise ValueError(f"unknown mutant {name!r}; there are: {', '.join(names())}")
    loaded: AbstractContextManager[None] = importlib.import_module(f"{__name__}.{name}").mutant()
    return loaded


@contextmanager
def replaced(owner: type, attribute: str, value: object) -> Iterator[None]:
    """Replace an attribute that must exist.

    Raises:
        AttributeError: it does not: the code moved, and the mutant would change nothing.
    """
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)
