"""Files mean the same on the machine and in the simulator: holes, handles, names, errors."""

import asyncio
import errno
from collections.abc import Callable

import pytest
from both_worlds import Run, in_both_worlds

from maxq.reference.host import Disk, Host, read_file, replace_file

run = in_both_worlds  # the fixture
FAR = 1_000_000


def write(disk: Disk, path: str, data: bytes) -> None:
    """Make a file that holds `data`."""
    file = disk.open(path, create=True)
    file.pwrite(data, 0)
    file.close()


def fails(act: Callable[[], object], number: int) -> None:
    with pytest.raises(OSError) as caught:  # the errno is the contract
        act()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


def test_holes_read_as_zeros(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        file = host.disk.open(f"{folder}/f", create=True)
        file.pwrite(b"end", FAR)
        assert file.size() == FAR + 3
        assert file.pread(5, FAR - 4) == b"\0\0\0\0e"
        file.pwrite(b"mid", 10)
        assert file.pread(5, 9) == b"\0mid\0"
        assert file.pread(10, FAR + 1) == b"nd"
        assert file.pread(10, FAR + 3) == file.pread(10, FAR + 9) == b""
        file.truncate(11)
        file.truncate(14)
        assert file.pread(9, 9) == b"\0m\0\0\0"
        file.pwrite(b"", 100)
        assert file.size() == 14, "nothing written grows nothing"

    run(case)


def test_a_write_over_the_end_replaces_and_grows(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        file = host.disk.open(f"{folder}/f", create=True)
        file.pwrite(b"abcdef", 0)
        file.pwrite(b"XYZ", 4)
        assert (file.size(), file.pread(99, 0)) == (7, b"abcdXYZ")
        file.pwrite(b"12", 0)
        assert file.pread(3, 0) == b"12c"

    run(case)


def test_what_one_handle_cuts_the_other_does_not_see(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        one = host.disk.open(f"{folder}/f", create=True)
        other = host.disk.open(f"{folder}/f", create=True)
        one.pwrite(b"abcdef", 0)
        other.truncate(2)
        assert (one.size(), one.pread(9, 0)) == (2, b"ab")
        other.close()
        one.pwrite(b"c", 2)
        assert read_file(host.disk, f"{folder}/f") == b"abc"

    run(case)


def test_a_handle_follows_its_file_under_another_name(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        disk = host.disk
        write(disk, f"{folder}/old", b"old")
        write(disk, f"{folder}/new", b"new")
        moved, replaced = disk.open(f"{folder}/old"), disk.open(f"{folder}/new")
        disk.rename(f"{folder}/old", f"{folder}/new")
        moved.pwrite(b"!", 3)
        replaced.pwrite(b"?", 3)
        await moved.sync()
        await replaced.sync()
        assert read_file(disk, f"{folder}/new") == b"old!"
        assert (replaced.pread(9, 0), disk.list(folder)) == (b"new?", ["new"])
        disk.rename(f"{folder}/new", f"{folder}/new")
        assert disk.list(folder) == ["new"]

    run(case)


def test_a_removed_file_lives_on_for_who_has_it_open(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        write(host.disk, f"{folder}/f", b"old")
        held = host.disk.open(f"{folder}/f")
        host.disk.unlink(f"{folder}/f")
        held.pwrite(b"er", 3)
        await held.sync()
        assert held.pread(9, 0) == b"older"
        write(host.disk, f"{folder}/f", b"young")
        assert (held.pread(9, 0), read_file(host.disk, f"{folder}/f")) == (b"older", b"young")

    run(case)


def test_folders_are_no_files_and_files_no_folders(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        disk = host.disk
        write(disk, f"{folder}/sub/f", b"")
        fails(lambda: disk.open(f"{folder}/sub"), errno.EISDIR)
        fails(lambda: disk.unlink(f"{folder}/sub"), errno.EISDIR)
        fails(lambda: disk.open(f"{folder}/sub/f/below"), errno.ENOTDIR)
        fails(lambda: disk.list(f"{folder}/sub/f"), errno.ENOTDIR)
        with pytest.raises(NotADirectoryError):
            await disk.sync_dir(f"{folder}/sub/f")

    run(case)


def test_a_folder_outlives_its_files(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        disk = host.disk
        write(disk, f"{folder}/sub/f", b"")
        disk.unlink(f"{folder}/sub/f")
        assert disk.list(f"{folder}/sub") == []
        await disk.sync_dir(f"{folder}/sub")
        assert disk.list(folder) == ["sub"]
        with pytest.raises(FileNotFoundError):
            await disk.sync_dir(f"{folder}/none")

    run(case)


def test_a_sync_changes_nothing_that_is_read(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        file = host.disk.open(f"{folder}/f", create=True)
        file.pwrite(b"abc", 0)
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(file.sync())
            file.pwrite(b"d", 3)
        assert file.pread(9, 0) == b"abcd"
        sync = asyncio.get_running_loop().create_task(file.sync())
        await asyncio.sleep(0)
        file.close()
        await sync  # a close does not hurt a sync under way

    run(case)


def test_a_lock_is_held_once(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        host.disk.lock(f"{folder}/sub/lock")
        fails(lambda: host.disk.lock(f"{folder}/sub/lock"), errno.EWOULDBLOCK)
        host.disk.lock(f"{folder}/other")
        assert host.disk.list(folder) == ["other", "sub"]
        assert read_file(host.disk, f"{folder}/sub/lock") == b""

    run(case)


def test_replacing_twice_at_once_leaves_one_of_both(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        await replace_file(host.disk, f"{folder}/f", b"first")
        file = host.disk.open(f"{folder}/f")
        await replace_file(host.disk, f"{folder}/f", b"second")
        assert file.pread(9, 0) == b"first", "who has it open reads what it opened"
        assert read_file(host.disk, f"{folder}/f") == b"second"

    run(case)


def test_a_change_of_a_file_is_dated_by_the_wall_clock(run: Run) -> None:
    """Reading it, syncing it and giving it another name are none."""

    async def case(host: Host, folder: str) -> None:
        disk, path = host.disk, f"{folder}/f"
        before = host.wall_ms() - 20  # a file system's clock ticks each 4 to 10 ms
        write(disk, path, b"one")
        made = disk.modified_ms(path)
        assert before <= made <= host.wall_ms()
        await asyncio.sleep(0.05)
        file = disk.open(path)
        file.pread(3, 0)
        await file.sync()
        disk.rename(path, f"{folder}/g")
        assert disk.modified_ms(f"{folder}/g") == made
        file.pwrite(b"two", 0)
        written = disk.modified_ms(f"{folder}/g")
        assert written > made
        await asyncio.sleep(0.05)
        file.truncate(1)
        assert disk.modified_ms(f"{folder}/g") > written
        fails(lambda: disk.modified_ms(path), errno.ENOENT)

    run(case)


def test_a_partition_says_how_full_it_is(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        disk, path = host.disk, f"{folder}/f"
        write(disk, path, bytes(FAR))
        file = disk.open(path)
        await file.sync()
        found = disk.usage(path)
        assert FAR <= found.used < found.total
        assert 0 < found.percent < 100
        assert disk.usage(folder).total == found.total
        fails(lambda: disk.usage(f"{folder}/none"), errno.ENOENT)

    run(case)


def test_a_lock_is_let_go_and_can_be_had_again(run: Run) -> None:
    """By whoever asks next, of this process or of another one."""

    async def case(host: Host, folder: str) -> None:
        path = f"{folder}/lock"
        host.disk.lock(path)
        host.disk.unlock(path)
        host.disk.lock(path)
        fails(lambda: host.disk.lock(path), errno.EWOULDBLOCK)

    run(case)


def test_a_file_of_another_is_read_whole_within_a_bound(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        write(host.disk, f"{folder}/sub/f", b"content")
        assert host.disk.read(f"{folder}/sub/f", 7) == b"content"
        fails(lambda: host.disk.read(f"{folder}/sub/f", 6), errno.EFBIG)
        fails(lambda: host.disk.read(f"{folder}/sub", 6), errno.EISDIR)
        fails(lambda: host.disk.read(f"{folder}/none", 6), errno.ENOENT)
        fails(lambda: host.disk.read(f"{folder}/sub/f/g", 6), errno.ENOTDIR)

    run(case)
