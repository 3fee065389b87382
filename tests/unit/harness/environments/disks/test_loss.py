"""What a loss of power took, told from two views of a disk."""

import io

from maxq.harness.environments.disks.leaks import is_dead
from maxq.harness.environments.disks.loss import PAGE, View, lost, pages_of

A, B, ZERO = b"a" * PAGE, b"b" * PAGE, bytes(PAGE)


def view(**files: tuple[int, bytes]) -> View:
    """Files by name: inode and content."""
    return View(
        names={name: inode for name, (inode, _) in files.items()},
        pages={inode: pages_of([data]) for inode, data in files.values()},
    )


def lost_of(before: View, after: View) -> tuple[int, int]:
    found = lost(before, after)
    assert set(found) == {"lost_bytes", "lost_names"}
    return found["lost_bytes"], found["lost_names"]


def test_pages_of_zeros_are_not_there_and_the_last_page_may_be_short() -> None:
    file = io.BytesIO(A + ZERO + B + b"end")
    chunks = iter(lambda: file.read(2 * PAGE), b"")
    assert {n: size for n, (_, size) in pages_of(chunks).items()} == {0: PAGE, 2: PAGE, 3: 3}
    assert pages_of([]) == {}


def test_what_is_as_it_was_is_not_lost() -> None:
    same = view(f=(1, A + b"b"), folder=(2, b""))
    assert lost_of(same, same) == (0, 0)
    assert lost_of(view(f=(1, A)), view(f=(1, A + ZERO))) == (0, 0), "zeros are no content"


def test_bytes_are_counted_by_pages() -> None:
    before = view(f=(1, A + B + b"tail"))
    assert lost_of(before, view(f=(1, A + B))) == (4, 0)
    assert lost_of(before, view(f=(1, A + A + b"tail"))) == (PAGE, 0)
    assert lost_of(before, view(f=(1, b""))) == (2 * PAGE + 4, 0)


def test_a_file_that_is_gone_lost_its_name_and_its_bytes() -> None:
    assert lost_of(view(f=(1, b"abc"), g=(2, b"d")), view(g=(2, b"d"))) == (3, 1)


def test_a_removal_and_a_rename_that_never_happened_are_names_and_no_bytes() -> None:
    assert lost_of(view(), view(f=(1, b"abc"))) == (0, 1)
    assert lost_of(view(new=(1, b"abc")), view(old=(1, b"abc"))) == (0, 1)


def test_a_file_that_was_replaced_in_vain_is_one_name() -> None:
    replaced = view(f=(2, b"new"))
    assert lost_of(replaced, view(f=(1, b"old"), temporary=(2, b"new"))) == (0, 1)
    assert lost_of(replaced, view(f=(1, b"old"))) == (3, 1)


def test_a_disk_is_left_alone_while_its_harness_may_live() -> None:
    words = ["maxq", "7", "100", "pid:[1]"]
    assert not is_dead(words, "pid:[1]", 100)
    assert is_dead(words, "pid:[1]", None)
    assert is_dead(words, "pid:[1]", 101), "its number has another process now"
    assert not is_dead(words, "pid:[2]", None), "numbers of another namespace say nothing"
