"""Every byte captured from real clusters is decoded, and written again equal where it can be.

Needs the shared captures, which are too big for the repository; `test_golden_subset` runs on a
selection that is in it.
"""

from collections import Counter

import golden_table as golden
import pytest

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(
        not golden.ROOT.is_dir(), reason="needs the captures beside the repository: shared/golden"
    ),
]

# (items, written again equal) in 5.1.1, 5.3.3 and 5.5.0. The rest is excluded, with a reason.
COUNTS = {
    "103 body": ((56, 56), (61, 61), (56, 56)),
    "batch body": ((1, 1), (1, 1), (1, 1)),
    "body without request": ((109, 0), (109, 0), (151, 0)),
    "commit log record": ((123, 123), (149, 149), (252, 252)),
    "consume-queue unit": ((123, 123), (148, 148), (252, 252)),
    "file brokerIdentity": ((3, 3), (3, 3), (3, 3)),
    "file checkpoint": ((3, 3), (3, 3), (3, 3)),
    "file config/*.json": ((45, 0), (45, 0), (45, 0)),
    "file config/timercheck": ((3, 3), (3, 3), (3, 3)),
    "file epochFileCheckpoint": ((6, 6), (6, 6), (6, 6)),
    "ha c2s": ((141, 141), (166, 166), (220, 220)),
    "ha s2c": ((145, 145), (169, 169), (224, 224)),
    "json body": ((530, 376), (539, 373), (506, 356)),
    "message body": ((18, 18), (18, 18), (40, 40)),
    "properties body": ((3, 3), (3, 3), (3, 3)),
    "record in 39": ((1, 1), (0, 0), (0, 0)),
    "record in answers": ((58, 58), (56, 56), (87, 87)),
    "remoting": ((1635, 1613), (1666, 1644), (1890, 1868)),
    "remoting+raft": ((1952, 1945), (1983, 1976), (1998, 1991)),
    "timer checkpoint": ((146, 146), (154, 154), (153, 153)),
    "typed header": ((2417, 2303), (2500, 2393), (2825, 2583)),
}
EXCLUSIONS = {
    f"body without request: {golden.NO_REQUEST}": 369,
    "file config/*.json: pretty-printed by Java; any JSON is right": 135,
    f"json body: {golden.BARE_KEYS}": 470,
    f"remoting+raft: {golden.PROBE}": 21,
    f"remoting: {golden.PROBE}": 66,
    "typed header: error answer 1 to 310 carries no full header": 5,
    "typed header: error answer 22 to 14 carries no full header": 5,
    "typed header: error answer 25 to 11 carries no full header": 105,
    f"typed header: {golden.NO_REQUEST}": 348,
}
STREAMS = {"ha c2s", "ha s2c", "remoting", "remoting+raft"}


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, golden.Row]]:
    return golden.judge(golden.ROOT)


def test_nothing_is_wrong(table: dict[str, dict[str, golden.Row]]) -> None:
    wrong = [w for rows in table.values() for row in rows.values() for w in row.wrong]
    assert wrong == [], golden.render(table)


def test_every_item_is_counted(table: dict[str, dict[str, golden.Row]]) -> None:
    got = {
        kind: tuple(
            (row.items, row.equal)
            for release in golden.RELEASES
            for row in [table[release].get(kind, golden.Row())]
        )
        for kind in COUNTS
    }

    assert got == COUNTS
    assert {kind for rows in table.values() for kind in rows} == COUNTS.keys()
    for rows in table.values():
        for row in rows.values():
            assert row.items == row.equal + row.excluded.total()


def test_every_exclusion_has_a_reason(table: dict[str, dict[str, golden.Row]]) -> None:
    got: Counter[str] = Counter()
    for rows in table.values():
        for kind, row in rows.items():
            got.update({f"{kind}: {why}": n for why, n in row.excluded.items()})

    assert dict(got) == EXCLUSIONS


@pytest.mark.parametrize("release", golden.RELEASES)
def test_every_stream_is_decoded_to_its_end(
    table: dict[str, dict[str, golden.Row]], release: str
) -> None:
    rows = [table[release][kind] for kind in sorted(STREAMS)]
    folder = golden.ROOT / release
    files = [path for path in folder.glob("*.bin") if path.name.endswith((".c2s.bin", ".s2c.bin"))]

    assert sum(row.streams for row in rows) == len(files)
    assert sum(row.size for row in rows) == sum(path.stat().st_size for path in files)
    for row in rows:  # what is missing is the partial last frame of a stream that was cut off
        assert row.decoded + row.cut == row.size
