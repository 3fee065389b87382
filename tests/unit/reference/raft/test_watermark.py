"""The file that shows that a log was longer."""

import pytest

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import SimDisk
from maxq.reference.raft.watermark import SLOT_BYTES, ForeignRaftLog, Reached, Watermark

PATH = "/r/watermark"


def opened(disk: SimDisk, group: str = "g", node: str = "n") -> tuple[Watermark, Reached | None]:
    mark = Watermark(disk, PATH, group=group, node=node)
    return mark, mark.load()


def test_the_newest_slot_counts() -> None:
    disk = SimDisk(Draws(1))
    mark, reached = opened(disk)
    assert reached is None
    for index in range(1, 6):
        mark.note(2, index)
        assert opened(disk)[1] == Reached(term=2, index=index)


@pytest.mark.parametrize("bit", range(0, 8 * SLOT_BYTES, 61))
def test_a_damaged_slot_leaves_the_other(bit: int) -> None:
    """Never ahead of what was written: the slot before is behind by one."""
    disk = SimDisk(Draws(1))
    mark, _ = opened(disk)
    mark.note(2, 1)
    mark.note(2, 2)  # in the first slot
    if bit < 8 * len(disk.files[PATH]):
        disk.files[PATH][bit // 8] ^= 1 << bit % 8
    assert opened(disk)[1] in (Reached(term=2, index=1), Reached(term=2, index=2))


@pytest.mark.parametrize(("group", "node"), [("g", "m"), ("h", "n")])
def test_another_groups_or_nodes_file_is_refused_by_name(group: str, node: str) -> None:
    disk = SimDisk(Draws(1))
    opened(disk)[0].note(1, 1)
    with pytest.raises(ForeignRaftLog, match="the log of node n of group g"):
        opened(disk, group, node)
