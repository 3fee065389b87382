"""A folder of what is generated: there whole, or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxq.histories.store import JOURNAL, PARQUET
from maxq.workloads.generated.asked.request import Format, Refusal
from maxq.workloads.generated.columns.sinks import Form, Journal, Lines, Records, Sink, Table


def refuse_used(out: Path) -> None:
    """Refuse a place where something is.

    Raises:
        Refusal: there is something, and it is no empty folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refusal(f"{out} is there already")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out` at the end; if anything is raised it goes.

    Raises:
        Refusal: as `refuse_used`.
    """
    refuse_used(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield part
        if out.exists():
            out.rmdir()
        part.chmod(0o755)
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def form_of(to: Format, run_id: str, total: int = 0) -> Form:
    """The form of a history's rows; `total` is how many the history of a run has."""
    return Lines() if to == "jsonl" else Records(run_id, total)


def sink_in(folder: Path, to: Format) -> Sink:
    """The file of a history in a folder."""
    return Journal(folder / JOURNAL) if to == "jsonl" else Table(folder / PARQUET)
