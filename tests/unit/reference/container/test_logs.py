"""A broker's own log file: its lines, its bound, and what becomes of a line that has no room."""

import json
from pathlib import Path

from maxq.harness.simulation.world import World
from maxq.reference.container.logs import BrokerLog, NamedHost
from maxq.reference.host import RealHost

HOME = "/root/logs/rocketmqlogs/c_x_0"


def test_lines_go_to_a_file_that_begins_again_when_it_is_full(tmp_path: Path) -> None:
    """One older file is kept, so the log has a bound."""
    log = BrokerLog(RealHost(seed=1).disk, f"{tmp_path}/c_x_0", bytes_max=80)
    for number in range(9):
        log.write({"trace": "a", "number": number})
    found = {
        path.name: [json.loads(line)["number"] for line in path.read_text().splitlines()]
        for path in (tmp_path / "c_x_0").iterdir()
    }
    assert found == {"broker.1.log": [3, 4, 5], "broker.log": [6, 7, 8]}
    log.write({"long": "x" * 500})
    log.write({"trace": "b"})
    assert (tmp_path / "c_x_0" / "broker.log").read_text() == '{"trace":"b"}\n'


def test_a_line_goes_to_one_place() -> None:
    """To that of all others where the disk does not take it."""
    world = World(1)
    machine = world.add_machine("m", "198.18.0.1")
    _, host = world.process(machine)
    shared, own = NamedHost(host, "c_y_0"), NamedHost(host, "c_x_0", isolated=True)
    shared.log("one", at=1)
    own.log("two", at=2)
    machine.disk.full = True
    own.log("three", at=3)
    world.close()
    assert [(trace, fields) for _, trace, fields in machine.log] == [
        ("one", {"broker": "c_y_0", "at": 1}),
        ("log.failed", {"broker": "c_x_0", "why": "[Errno 28] no space left on device"}),
        ("three", {"broker": "c_x_0", "at": 3}),
    ]
    line = machine.disk.content(f"{HOME}/broker.log")
    assert json.loads(line or b"") == {"at_ms": host.wall_ms(), "trace": "two", "at": 2}
