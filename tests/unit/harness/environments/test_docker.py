"""Parts of the docker environment that need no engine."""

import io
import re
import tarfile
from ipaddress import IPv4Network
from pathlib import Path
from typing import cast

import msgspec
import pytest

from maxq.harness.contracts.environment import Capability, EnvironmentUnavailable
from maxq.harness.environments.docker import free_subnets, subnet_prefix
from maxq.harness.environments.engine import client as docker_engine
from maxq.harness.environments.engine import image, leaks, rights
from maxq.harness.environments.engine.client import Engine, EngineFailed, connect
from maxq.harness.environments.engine.image import PUBLIC_BASE, inputs
from maxq.harness.environments.engine.leaks import Holder, is_dead, this_process
from maxq.harness.environments.process_life import started
from maxq.harness.run import doctor
from maxq.harness.run.execute import needs_of_run
from maxq.harness.schedule.options import Options

HERE = Holder(pid=7, start=100, boot="boot-1", processes="pid:[1]")


@pytest.mark.parametrize(
    ("machines", "prefix"),
    [(1, 24), (15, 24), (16, 23), (31, 23), (32, 22), (63, 22), (64, 21), (128, 20), (255, 20)],
)
def test_a_network_holds_a_block_a_machine_and_one_for_the_harness(
    machines: int, prefix: int
) -> None:
    assert subnet_prefix(machines) == prefix
    assert 2 ** (32 - prefix) >= (machines + 1) * 16


def test_a_free_network_overlaps_with_no_other() -> None:
    taken = [IPv4Network("198.18.0.0/23"), IPv4Network("198.18.3.0/24"), IPv4Network("10.0.0.0/8")]
    assert [str(n) for n in free_subnets(24, taken)[:3]] == [
        "198.18.2.0/24",
        "198.18.4.0/24",
        "198.18.5.0/24",
    ]
    assert str(free_subnets(20, taken)[0]) == "198.18.16.0/20"
    assert free_subnets(24, [IPv4Network("198.18.0.0/15")]) == []


def test_what_belongs_to_a_living_process_is_left_alone() -> None:
    labels = HERE.labels("maxq-1", Path("x"))
    assert not is_dead(labels, HERE, 100)
    assert is_dead(labels, HERE, None), "no such process"
    assert is_dead(labels, HERE, 101), "its number has another process now"
    other_boot = msgspec.structs.replace(HERE, boot="boot-2")
    assert is_dead(labels, other_boot, 100)
    elsewhere = msgspec.structs.replace(HERE, processes="pid:[2]")
    assert not is_dead(labels, elsewhere, None), "numbers of another namespace say nothing"


def test_this_process_is_alive_and_number_0_is_not() -> None:
    here = this_process()
    assert started(here.pid) == here.start > 0
    assert started(0) is None
    assert not is_dead(here.labels("x", Path("x")), here, started(here.pid))


def test_the_pins_of_an_image_are_those_of_the_project_with_their_hashes() -> None:
    text = "a==1 \\\n    --hash=sha256:00\nb-c==2 \\\n    --hash=sha256:01\n"
    assert image.requirements(text, ("b-c",)) == "b-c==2 \\\n    --hash=sha256:01\n"
    sources = image.inputs()
    pins = sources["wheels/requirements.txt"].decode()
    assert pins.startswith("msgspec==")
    assert pins.count("==") == len(image.NEEDS)


def test_an_image_holds_what_its_process_1_and_nodes_import() -> None:
    paths = image.inputs().keys()
    for module in ("container_agent", "machine_agent", "packet_filter"):
        assert f"lib/maxq/harness/environments/machines/{module}.py" in paths
    assert "lib/maxq/reference/__main__.py" in paths
    inside = {path.removeprefix("lib/maxq/").split("/")[0] for path in paths if "lib/" in path}
    assert inside == {"__init__.py", "reference", "harness"}


def test_an_image_has_another_name_when_anything_in_it_changes() -> None:
    sources = {"a": b"1", "b": b"2"}
    tags = {
        image.tag_of(sources, "base"),
        image.tag_of(sources, "other"),
        image.tag_of({"a": b"12", "b": b""}, "base"),
        image.tag_of({"a": b"1", "c": b"2"}, "base"),
    }
    assert len(tags) == 4
    assert image.tag_of(dict(reversed(sources.items())), "base") in tags


def test_an_archive_is_the_same_for_the_same_files() -> None:
    data = image.pack({"b": b"2", "a/x": b"1"})
    assert data == image.pack({"a/x": b"1", "b": b"2"})
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["a/x", "b"]


def test_no_engine_is_said_with_what_helps_and_what_works_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(
        EnvironmentUnavailable,
        match=r"no engine answers .*docker/start-engine.*--environment simulated",
    ):
        connect()
    decision = next(doctor.examine(Options(environment="local", seed=1), doctor.Place()))
    assert not decision.works
    assert decision.line.startswith(f"docker: no engine answers at unix://{tmp_path}/none (")
    assert decision.line.endswith("; docker/start-engine starts one (as root)")
    done = leaks.clean()
    assert (done.removed, done.kept) == ((), ())
    assert done.unseen[0].startswith(f"docker: no engine answers at unix://{tmp_path}/none (")
    monkeypatch.setenv("DOCKER_HOST", "tcp://198.18.0.1:2375")
    with pytest.raises(EnvironmentUnavailable, match="on another machine") as caught:
        connect()
    assert caught.value.lacks[0].mend == "unset DOCKER_HOST"


class Bare:
    """An engine without images, which reaches no other place."""

    def has_image(self, tag: str) -> bool:
        return False

    def pull(self, tag: str) -> None:
        raise EngineFailed(f"pull image {tag}: no route to host")


def test_a_base_that_cannot_be_pulled_says_which_and_what_makes_one() -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"no route to host.*--base-image") as caught:
        image.ensure_image(cast(Engine, Bare()), None, image.quiet)
    (lack,) = caught.value.lacks
    assert lack.what == f"the engine has no base image and cannot pull {PUBLIC_BASE}"
    assert lack.mend == "docker/debootstrap-base makes one (as root)"


def test_a_socket_that_this_user_may_not_use_is_told_apart() -> None:
    lack = docker_engine.silent("unix:///x", PermissionError(13, "denied"))
    assert lack.what == "this user may not use the engine at unix:///x"
    assert lack.mend.startswith("usermod --append --groups docker")


def test_sources_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "CHECKOUT", tmp_path)
    monkeypatch.setattr(image, "PACKED", tmp_path)  # an editable install has copies there
    with pytest.raises(EnvironmentUnavailable, match="run from a checkout"):
        image.inputs()


def test_an_installed_wheel_has_what_an_image_is_built_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere" / "Dockerfile").write_text("FROM x")
    monkeypatch.setattr(image, "PACKED", tmp_path)
    monkeypatch.setattr(image, "DOCKERFILE", "nowhere/Dockerfile")
    assert image.inputs()["Dockerfile"] == b"FROM x"


def test_the_base_is_named_by_its_bytes() -> None:
    """The Dockerfile by itself builds from the same."""
    assert re.fullmatch(r"debian:bookworm-slim@sha256:[0-9a-f]{64}", PUBLIC_BASE)
    assert f"ARG BASE={PUBLIC_BASE}\n".encode() in inputs()["Dockerfile"]


def test_the_rights_of_a_container_are_those_that_its_run_needs() -> None:
    """Of a machine, and of the clients, by whether nodes run as another user than process 1."""
    harmless = frozenset(Capability) - rights.NETWORK
    assert rights.of_machine(harmless, other_user=False) == ()
    for need in rights.NETWORK:
        assert rights.of_machine({*harmless, need}, other_user=False) == ("NET_ADMIN",)
    as_user = ("DAC_OVERRIDE", "KILL", "SETGID", "SETUID")
    assert rights.of_machine(harmless, other_user=True) == as_user
    assert rights.of_client(other_user=False) == ("NET_ADMIN",)
    assert rights.of_client(other_user=True) == ("NET_ADMIN", "DAC_OVERRIDE")


def test_what_a_run_needs_is_known_by_its_faults_its_acts_and_its_workloads() -> None:
    quiet = Options(environment="docker", seed=1, workload=("queue",), nemesis=("kill",))
    needs = needs_of_run(quiet)
    assert Capability.KILL in needs
    assert not rights.NETWORK & needs
    for changed, need in (
        ({"nemesis": ("partition",)}, Capability.CUT),
        ({"nemesis": ("start-packet-loss", "kill"), "scripted": True}, Capability.LOSS),
        ({"workload": ("queue", "registration")}, Capability.CHANGE_ADDRESS),
    ):
        assert need in needs_of_run(msgspec.structs.replace(quiet, **changed))
