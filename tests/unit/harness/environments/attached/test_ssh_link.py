"""The way to a host: what is refused, and how both ends notice that the other is gone."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from maxq.harness.client.probes import until
from maxq.harness.contracts.environment import EnvironmentLost, MissingCapability
from maxq.harness.contracts.existing import SshFiles
from maxq.harness.environments.attached import ssh_link
from maxq.harness.environments.attached.ssh_link import Found, HostLink, Where, lacking, logged_in
from maxq.harness.environments.machines.frames import Frames, framed

WHERE = Where.of("admin@10.0.0.7")
RICH = Found((3, 11), "/usr/bin/python3", "", True)


@pytest.mark.parametrize(
    ("text", "where", "key", "spoken"),
    [
        ("a@h", Where("a", "h", 22), "h", "a@h"),
        ("a@10.0.0.7:22", Where("a", "10.0.0.7", 22), "10.0.0.7", "a@10.0.0.7"),
        ("a@h:2222", Where("a", "h", 2222), "[h]:2222", "a@h:2222"),
    ],
)
def test_who_logs_in_where(text: str, where: Where, key: str, spoken: str) -> None:
    assert (Where.of(text), where.key, str(where)) == (where, key, spoken)


@pytest.mark.parametrize(
    ("found", "nft", "why"),
    [
        (RICH, True, ""),
        (Found((3, 6), "/usr/bin/python3", "", True), False,
         "admin@10.0.0.7 has Python 3.6 as python3: install 3.9 or later there"),
        (Found((3, 11), "/usr/bin/python3", "sudo: a password is required", True), False,
         "admin@10.0.0.7 is not root, and may not be (sudo: a password is required): have sudo "
         "there, and in /etc/sudoers.d/maxq the line\nadmin ALL=(root) NOPASSWD: /usr/bin/python3"),
        (Found((3, 11), "/usr/bin/python3", "", False), True,
         "admin@10.0.0.7 has no nft: install nftables there, or ask for --nemesis kill,pause"),
        (Found((3, 11), "/usr/bin/python3", "", False), False, ""),
    ],
    ids=["nothing", "python", "sudo", "nft", "no-nft-needed"],
)  # fmt: skip
def test_what_a_host_lacks_is_said_with_what_mends_it(found: Found, nft: bool, why: str) -> None:
    assert lacking(found, WHERE, nft=nft) == why


def test_without_paramiko_its_installation_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(MissingCapability, match=r"needs paramiko, .* pip install 'maxq\[ssh\]'"):
        logged_in(WHERE, SshFiles(), tmp_path)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (SshFiles(known_hosts="none"), r"\[ssh\] known_hosts: .*/none: No such file"),
        (SshFiles(key="none"), r"\[ssh\] key: .*/none: .*: name a private key"),
        (SshFiles(key="text"), r"\[ssh\] key: .*/text: .*: name a private key"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path: Path, files: SshFiles, why: str) -> None:
    pytest.importorskip("paramiko")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(MissingCapability, match=why):
        logged_in(WHERE, files, tmp_path)


class Channel:
    """Paramiko's end of a channel: what is sent is kept, what comes is put there by a test."""

    def __init__(self, *, answers: bool) -> None:
        self.readable, self._wake = os.pipe()
        self.came: list[bytes] = []
        self.asked: list[str] = []
        self._answers = answers
        self._frames = Frames()

    def settimeout(self, timeout_s: float) -> None:
        assert timeout_s == 0.0, "the loop never waits for it"

    def fileno(self) -> int:
        return self.readable

    def send(self, data: bytes) -> int:
        for request in self._frames.take(data):
            self.asked.append(request["do"])
            if self._answers:
                self.put(framed({"id": request["id"], "said": request["do"]}))
        return len(data)

    def put(self, data: bytes) -> None:
        self.came.append(data)
        os.write(self._wake, b"x")

    def recv(self, size: int) -> bytes:
        if not self.came:
            raise TimeoutError
        os.read(self.readable, 1)
        return self.came.pop(0)

    def close(self) -> None:
        os.close(self.readable)
        os.close(self._wake)


def on_a_link(
    case: Any, monkeypatch: pytest.MonkeyPatch, *, answers: bool, silent_s: float = 10.0
) -> None:
    monkeypatch.setattr(ssh_link, "BEAT_S", 0.02)
    monkeypatch.setattr(ssh_link, "SILENT_S", silent_s)

    async def main() -> None:
        channel = Channel(answers=answers)
        link = HostLink(channel, channel, WHERE, 22)
        try:
            await case(link, channel)
        finally:
            link.close()

    asyncio.run(main())


def test_a_host_is_asked_for_signs_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(link: HostLink, channel: Channel) -> None:
        assert await link.ask("clock") == ({"said": "clock"}, None)

        async def asked_again() -> bool:
            return channel.asked.count("beat") >= 3

        assert await until(asked_again, 10.0)
        assert not link.gone.done()
        channel.put(framed({"id": 999, "said": "late"}))
        assert (await link.ask("find", name="a"))[0] == {"said": "find"}

    on_a_link(case, monkeypatch, answers=True)


def test_a_silent_host_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(link: HostLink, channel: Channel) -> None:
        with pytest.raises(EnvironmentLost, match="is lost; its watchdog there puts"):
            await link.ask("clock")
        assert link.gone.done()
        with pytest.raises(EnvironmentLost):
            await link.ask("clock")

    on_a_link(case, monkeypatch, answers=False, silent_s=0.1)


@pytest.mark.parametrize("piece", [b"", b"no frames at all"])
def test_the_end_of_an_agent_is_seen_at_once(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    async def case(link: HostLink, channel: Channel) -> None:
        channel.put(piece)
        with pytest.raises(EnvironmentLost):
            await link.ask("clock")

    on_a_link(case, monkeypatch, answers=False)


def test_what_an_agent_cannot_do_is_an_error_with_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(link: HostLink, channel: Channel) -> None:
        channel.put(framed({"id": 1, "error": "nft: no such table"}))
        with pytest.raises(OSError, match=r"admin@10.0.0.7: nft: no such table"):
            await link.ask("filter", name="a")

    on_a_link(case, monkeypatch, answers=False)
