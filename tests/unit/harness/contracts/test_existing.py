"""Files that say which nodes a running cluster has: what they mean, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.existing import (
    BrokerMember,
    ClusterFileError,
    Existing,
    Member,
    read,
    written,
)
from maxq.harness.contracts.target import plan

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
GOOD = """cluster = "DefaultCluster"
[[namesrv]]
name = "n"
address = "127.0.0.1:9876"
[[broker]]
name = "a"
address = "127.0.0.1:10911"
set = "broker-a"
id = 0
"""


@given(
    cluster=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30),
    names=st.lists(NAMES, min_size=3, max_size=9, unique=True),
    sets=st.lists(NAMES, min_size=1, max_size=3),
    controlled=st.booleans(),
)
@example(cluster="\x7f", names=["n", "c", "b"], sets=["s"], controlled=True)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    cluster: str, names: list[str], sets: list[str], controlled: bool,
) -> None:  # fmt: skip
    at = {name: f"host-{n}:{n + 1}" for n, name in enumerate(names)}
    brokers = names[2:]
    found = Existing(
        cluster=cluster,
        namesrv=(Member(name=names[0], address=at[names[0]]),),
        controller=(Member(name=names[1], address=at[names[1]]),) if controlled else (),
        broker=tuple(BrokerMember(name=name, address=at[name], set=sets[n % len(sets)], id=n)
                     for n, name in enumerate(brokers)),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("c") / "cluster.toml"
    path.write_text(written(found))
    again = read(path)
    assert (again.cluster, again.addresses) == (found.cluster, found.addresses)
    assert {*again.broker} == {*found.broker}
    nodes = {node.name: node for node in plan(again.topology)}
    assert nodes.keys() == at.keys() - (set() if controlled else {names[1]})
    assert {(b.name, nodes[b.name].broker_set, nodes[b.name].replica) for b in found.broker} == {
        (b.name, b.set, b.id) for b in found.broker
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD.replace('id = 0', 'id = -1'), "Expected `int` >= 0"),
        (GOOD.replace('id = 0', 'idd = 0'), "unknown field `idd`"),
        (GOOD.replace('cluster =', 'clustr ='), "unknown field `clustr`"),
        (GOOD.replace(':10911', ':109110'), "matching regex"),
        (GOOD.replace(':10911', ':70000'), "127.0.0.1:70000 has no port between 1 and 65535"),
        (GOOD.replace('127.0.0.1:10911', '10911'), "matching regex"),
        (GOOD.replace(':10911', ':9876'), "two nodes with the address 127.0.0.1:9876"),
        (GOOD.replace('name = "a"', 'name = "n"'), "two nodes with the name n"),
        (GOOD + GOOD[GOOD.index("[[broker]]"):].replace('"a"', '"b"').replace("10911", "10921"),
         "two brokers of broker-a with the id 0"),
        (GOOD.replace("[[broker]]", "[[brokers]]"), "unknown field `brokers`"),
        (GOOD[: GOOD.index("[[broker]]")], "missing required field `broker`"),
        ('cluster = "x', "Unterminated string"),
        (GOOD + 'container = "c"\nssh = "u@h"\n', "a has lines container and ssh: keep the one"),
        (GOOD + 'ssh = "u@h"\n', 'nothing that starts it: add unit = "NAME.service", or start ='),
        (GOOD + 'unit = "b.service"\n', 'a has a line unit: add ssh = "USER@HOST"'),
        (GOOD + 'pid = "/run/b.pid"\n', 'a has a line pid: add ssh = "USER@HOST"'),
        (GOOD + 'ssh = "u@h"\nunit = "b.service"\nstop = "x"\n', "lines unit and stop: systemd"),
        (GOOD + 'ssh = "u@h"\nunit = "b.service"\nstart = "x"\n', "lines unit and start: systemd"),
        (GOOD + 'ssh = "u@h:0"\nstart = "x"\n', "u@h:0 has no port between 1 and 65535"),
        (GOOD + 'ssh = "h"\nstart = "x"\n', "matching regex"),
        (GOOD + 'ssh = "-oX@h"\nstart = "x"\n', "matching regex"),
        (GOOD + 'ssh = "u@h"\nunit = "--now.service"\n', "matching regex"),
        (GOOD + 'ssh = "u@h"\nunit = "b"\nstop = "x"\n', "lines unit and stop: systemd"),
        (GOOD + '[ssh]\nkeys = "k"\n', "unknown field `keys`"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_file(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    with pytest.raises(ClusterFileError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert why in str(refused.value)


def test_hosts_and_how_nodes_start_there_are_written_too(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(f"""{GOOD}ssh = "admin@10.0.0.7:2222"
start = "sudo -u rocketmq sh -c 'echo \\"x\\"'"
stop = "supervisorctl stop broker"
pid = "/run/broker.pid"
[ssh]
key = "id"
""")
    found = read(path)
    assert found.on_hosts
    assert (found.ssh.key, found.ssh.known_hosts) == ("id", "")
    assert found.broker[0].place == f"ssh admin@10.0.0.7:2222 {found.broker[0].start}"
    path.write_text(written(found))
    assert read(path) == found


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ClusterFileError, match=str(path)):
            read(path)
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    with pytest.raises(ClusterFileError, match="utf-8"):
        read(tmp_path / "odd")


def test_name_servers_that_do_not_answer_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["cluster", "find", "127.0.0.1:1", "127.0.0.1:2;127.0.0.1:3"]) == 254
    said = " ".join(capsys.readouterr().err.split())
    assert "no name server answers: 127.0.0.1:1 no answer" in said
    assert "127.0.0.1:3 no answer" in said
    assert run_cli(["cluster", "find", "nonsense"]) == 254
