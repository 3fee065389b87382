"""The digests of a journal, ``history.digests``: by them a change after the run is noticed.

A line stands for a block, the lines that were handed to the operating system together:
``{"lines":120,"digest":"…"}`` is the BLAKE2b, of 16 bytes, of the journal's lines behind the block
before up to line 120. ``head -n 120 history.jsonl | tail -n +61 | b2sum -l 128`` prints the same.

A block is written before its digest, so a harness that was killed may leave a last block without
one, and never a digest without its block. The end marker stands behind the last block and in none.

This finds damage and careless edits. Anyone who may write to the run's folder can write both files.

Source: docs/spec/history-format.md 9.5.
"""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec

from maxq.histories.text import NOT_JSON

DIGEST_BYTES = 16


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A block: the number of its last line, from 1 on, and its digest in hexadecimal digits."""

    lines: Annotated[int, msgspec.Meta(gt=0)]
    digest: str


def digests_of(journal: Path) -> Path:
    """Where the digests of a journal are."""
    return journal.with_suffix(".digests")


def encode_block(lines: int, data: bytes) -> bytes:
    """The line of a block.

    Args:
        lines: how many the journal has with it.
        data: its own lines.
    """
    block = Block(lines, blake2b(data, digest_size=DIGEST_BYTES).hexdigest())
    return msgspec.json.encode(block) + b"\n"


class BlockCheck:
    """Compares a journal's lines with its digests, as they are read.

    `checked` is how many lines were found to be as they were recorded.

    Args:
        path: of the digests; without them nothing is compared.
    """

    def __init__(self, path: Path) -> None:
        self.checked = 0
        self.exist = path.exists()
        self._blocks, fault = _blocks(path.read_bytes() if self.exist else b"")
        self._fault = f"{path.name}: {fault}" if fault else ""  # of what follows them
        self._next = 0
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    def step(self, number: int, line: bytes) -> str:
        """Take the next line, the first of which is number 1; what is wrong with the block that
        ends here, or an empty text."""
        return self.take(number, line, [len(line)])

    def take(self, number: int, data: bytes, ends: Sequence[int]) -> str:
        """Take the next lines; what is wrong with the first block that is wrong, or an empty text.

        Args:
            number: of the first of them.
            data: their bytes, and maybe more.
            ends: where each of them ends.
        """
        begin = 0
        while self._next < len(self._blocks) and len(ends):
            block = self._blocks[self._next]
            end = ends[min(block.lines - number, len(ends) - 1)]
            self._hash.update(memoryview(data)[begin:end])
            if block.lines - number >= len(ends):
                break
            if self._hash.hexdigest() != block.digest:
                return self._wrong(
                    block.lines, "not as they were recorded: their digest is another"
                )
            begin, self.checked, self._next = end, block.lines, self._next + 1
            self._hash = blake2b(digest_size=DIGEST_BYTES)
        return ""

    def end(self, number: int, *, ended: bool) -> str:
        """Take the end of the file; what is missing, or an empty text.

        Args:
            number: of its last line that is an operation.
            ended: whether the end marker follows, before which every block got its digest.
        """
        if self._fault:
            return self._fault
        if self._next < len(self._blocks):
            return self._wrong(self._blocks[-1].lines, f"recorded, but only {number} are there")
        if self.exist and ended and self.checked < number:
            return self._wrong(number, "without digests, although the run ended")
        return ""

    def _wrong(self, last: int, why: str) -> str:
        return f"lines {self.checked + 1} to {last}: {why}"


def _blocks(data: bytes) -> tuple[Sequence[Block], str]:
    """The blocks up to the first that is none, and what is wrong with that. An incomplete last line
    is what a full disk leaves, and dropped."""
    found: list[Block] = []
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            block = msgspec.json.decode(line, type=Block)
        except NOT_JSON as error:
            return found, f"line {number}: {error}"
        if found and block.lines <= found[-1].lines:
            return found, f"line {number}: {block.lines} lines, after {found[-1].lines}"
        found.append(block)
    return found, ""
