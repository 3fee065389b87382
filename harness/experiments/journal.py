"""Journals of long work: a line for each thing done, so that work that was cut off can go on.

A crash may leave half a line at the end. What is appended behind it would be unreadable as well, so
anyone who goes on with a journal first cuts that off.
"""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from maxq.histories.aliases import renamed
from maxq.histories.text import NOT_JSON

T = TypeVar("T")


def resumed(path: Path, line_type: type[T]) -> list[T]:
    """The lines of a journal that is gone on with, under today's names; none if there is no file.
    From the first that is not whole on, the file is cut off."""
    done: list[T] = []
    if not path.exists():
        return done
    whole = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            if not line.endswith(b"\n"):
                break
            done.append(
                msgspec.convert(renamed(msgspec.json.decode(line)), line_type, str_keys=True)
            )
        except NOT_JSON:
            break
        whole += len(line)
    with path.open("r+b") as file:
        file.truncate(whole)
    return done


def append(path: Path, line: object) -> None:
    """Write a line behind what a journal has; it is on the disk then."""
    with path.open("ab") as journal:
        journal.write(msgspec.json.encode(line) + b"\n")
        journal.flush()
        os.fsync(journal.fileno())
