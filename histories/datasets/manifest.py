"""The manifest of a dataset: which runs it has, how each was found, and where its rows are.

    part-00000.parquet …   events tables; a row group is of one run, a file maybe of several
    dataset.json           the manifest, last, by rename: without it the folder is not whole
    unfinished.json        until then: of which runs the dataset is to be

The manifest has two lines: `Head`, which has the digest of the other, and `Manifest`. So a change
of any byte is noticed: of the parts by their digests in the manifest.

Source: docs/spec/history-format.md 9.6.
"""

from contextlib import suppress
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow.parquet as pq

from maxq.histories.digests import DIGEST_BYTES
from maxq.histories.jsonl import ReadReport
from maxq.histories.op import HistoryError
from maxq.histories.parquet import SHARED, File, Files, read_of
from maxq.histories.store import write_whole
from maxq.histories.text import NOT_JSON

MANIFEST, UNFINISHED = "dataset.json", "unfinished.json"
VERSION = 1

Count = Annotated[int, msgspec.Meta(ge=0)]


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of a run that lie together: the number of the part, and there from row group `begin` on
    the rows of each. `first` is the index of the first row."""

    part: Count
    begin: Count
    first: int
    rows: tuple[Count, ...]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: its length, and the BLAKE2b of 16 bytes of it, in hexadecimal digits."""

    bytes: Count
    digest: str


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was stored beside a run when it came here: `valid?` and the sentence."""

    valid: bool | str
    said: str = ""


class RunRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run: its id, where it was, its config.json as it was (null: there was none), how its
    history was found, its verdict then, and where its rows are, in order."""

    id: str
    source: str
    config: msgspec.Raw
    report: ReadReport
    verdict: Verdict | None = None
    stretches: tuple[Stretch, ...] = ()

    @property
    def parts(self) -> frozenset[int]:
        """The numbers of those that hold rows of it."""
        return frozenset(at.part for at in self.stretches)

    def config_read(self) -> dict[str, Any] | None:
        """How it was set up; None: its folder did not say, or it was a file.

        Raises:
            HistoryError: that is no JSON.
        """
        try:
            return msgspec.json.decode(self.config, type=dict[str, Any] | None)
        except NOT_JSON as error:
            raise HistoryError(f"config.json of {self.id}: {error}") from None


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run that a dataset is to have: its id, and where it is."""

    id: str
    path: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of a dataset; `id` is that of its parts."""

    id: str
    runs: tuple[RunRows, ...]
    parts: tuple[Part, ...]

    def files(self, folder: Path, run: RunRows) -> Files:
        """The rows of a run as those of a table."""
        return tuple(
            File(part_path(folder, at.part), at.rows, at.first, run.id, at.begin)
            for at in run.stretches
        )


class Head(msgspec.Struct, frozen=True):
    """What any version can read: its number, and the digest of the line behind."""

    dataset: int
    digest: str


def id_of(sources: tuple[Source, ...]) -> str:
    """That of a dataset of some runs."""
    return digest_of(msgspec.json.encode(sources))


def digest_of(data: bytes) -> str:
    """In hexadecimal digits."""
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def part_of(path: Path) -> Part:
    """What the manifest says of a file."""
    with path.open("rb") as file:
        found = file_digest(file, lambda: blake2b(digest_size=DIGEST_BYTES))
    return Part(path.stat().st_size, found.hexdigest())


def part_path(folder: Path, number: int) -> Path:
    """Where a part is."""
    return folder / f"part-{number:05d}.parquet"


def is_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset, or is to become one."""
    return any((folder / name).is_file() for name in (MANIFEST, UNFINISHED))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Say that a dataset is whole."""
    body = msgspec.json.encode(manifest)
    if b"\n" in body:  # a config.json as it was; between its tokens an end of line says nothing
        body = body.replace(b"\r", b" ").replace(b"\n", b" ")
    head = msgspec.json.encode(Head(VERSION, digest_of(body)))
    write_whole(folder / MANIFEST, b"%b\n%b\n" % (head, body))


def read_manifest(folder: Path) -> Manifest:
    """That of a dataset.

    Raises:
        HistoryError: there is none, it is damaged, or of another version.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise HistoryError(f"{folder} is not whole: `maxq compact` was cut off, run it again")
    head, _, rest = path.read_bytes().partition(b"\n")
    body = rest.removesuffix(b"\n")
    try:
        known = msgspec.json.decode(head, type=Head)
        if known.dataset != VERSION:
            raise HistoryError(f"{path}: version {known.dataset}, expected {VERSION}")
        if known.digest != digest_of(body):
            raise HistoryError(f"{path} is not as it was written: `maxq compact` the runs again")
        return msgspec.json.decode(body, type=Manifest)
    except NOT_JSON as error:
        raise HistoryError(f"{path} is no manifest: {error}") from None


def damaged_parts(folder: Path, manifest: Manifest) -> dict[int, str]:
    """The parts that are not as they were written, by number, each with what is wrong with it."""
    found = enumerate(manifest.parts)
    return {n: why for n, part in found if (why := _wrong(part_path(folder, n), part, manifest.id))}


def _wrong(path: Path, part: Part, dataset: str) -> str:
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size == part.bytes and part_of(path) == part:
        return ""
    if (other := _dataset_of(path)) and other != dataset:
        return "is of another dataset"
    if size < part.bytes:
        return f"is cut: {size:,} of {part.bytes:,} bytes are there"
    return "is damaged: its digest is another"


def _dataset_of(path: Path) -> str:
    """Of which dataset a file says it is; empty where it says nothing."""
    with suppress(HistoryError), read_of(path):
        meta: Any = pq.read_schema(path).metadata or {}
        return str(meta.get(SHARED.encode(), b"").decode())
    return ""
