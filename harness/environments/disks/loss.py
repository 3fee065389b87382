"""What a loss of power took: the files of a disk before it and after, compared.

Pure. A file is known by its inode, so that one which is back under its former name has lost a name
and none of its bytes. Bytes are counted by pages, which is how a kernel writes them; pages of zeros
count nothing, since files are grown by them.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

import msgspec

PAGE = 4096
ZEROS = bytes(PAGE)

Inode = int
Pages = Mapping[int, tuple[int, int]]  # number -> checksum, bytes


class View(msgspec.Struct, frozen=True):
    """Files and folders of a disk at one moment, as those who read them see them: the inode of each
    path, and the pages of each file that are not all zeros."""

    names: Mapping[str, Inode]
    pages: Mapping[Inode, Pages]


def pages_of(chunks: Iterable[bytes]) -> Pages:
    """The pages of a file, read in chunks of whole pages (the last may be shorter)."""
    found: dict[int, tuple[int, int]] = {}
    number = 0
    for chunk in chunks:
        for start in range(0, len(chunk), PAGE):
            page = chunk[start : start + PAGE]
            if not ZEROS.startswith(page):
                found[number] = crc32(page), len(page)
            number += 1
    return found


def lost(before: View, after: View) -> dict[str, int]:
    """What is not as it was: `lost_bytes` of pages whose content is gone, and `lost_names`,
    creations, renames and removals that never happened."""
    byte_count = 0
    for inode, pages in before.pages.items():
        kept = after.pages.get(inode, {})
        byte_count += sum(page[1] for n, page in pages.items() if kept.get(n) != page)
    changed = [n for n, inode in before.names.items() if after.names.get(n) != inode]
    known = frozenset(before.names.values())
    # What is back and was there under another name is the other half of a rename, counted already.
    back = [n for n, inode in after.names.items() if n not in before.names and inode not in known]
    return {"lost_bytes": byte_count, "lost_names": len(changed) + len(back)}
