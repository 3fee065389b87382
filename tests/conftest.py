"""Which releases of Apache RocketMQ tests marked `rocketmq` run; which tests are of real processes;
a fixture of simulated tests.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from maxq.harness.targets.rocketmq.releases import MISSING

if TYPE_CHECKING:
    from reference_world import Cluster

RELEASES = "5.5.0"
# Where tests are of real processes, whatever their markers; markers of others that are.
TESTS = Path(__file__).parent
PROCESSES = (
    *(TESTS / name for name in ("conformance", "e2e", "fuzz")),
    TESTS / "unit" / "harness" / "run" / "process",
)
OF_MACHINES = ("local", "docker", "browser", "wheel")
# Where what computes runs beside others that come first (`python -m tests`), the time that an
# example takes says nothing of it.
settings.register_profile("beside", deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rocketmq",
        default=RELEASES,
        metavar="RELEASE,…",
        help=f"releases of Apache RocketMQ for the tests marked rocketmq (default: {RELEASES})",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what meets the machine and its clock, `real`; skip what is of a checkout elsewhere."""
    elsewhere = not (TESTS.parent / "harness").is_dir()
    for item in items:
        if elsewhere and item.path.parent == TESTS / "tidy":
            item.add_marker(pytest.mark.skip(reason="rules of a checkout; this is an sdist"))
        placed = any(item.path.is_relative_to(folder) for folder in PROCESSES)
        if placed or any(item.get_closest_marker(name) for name in OF_MACHINES):
            item.add_marker("real")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    wanted = metafunc.definition.get_closest_marker("rocketmq") is not None
    if wanted and "release" in metafunc.fixturenames:
        releases = metafunc.config.getoption("rocketmq").split(",")
        unknown = [release for release in releases if release not in MISSING]
        if unknown:
            raise pytest.UsageError(f"--rocketmq: no release {unknown[0]!r}")
        metafunc.parametrize("release", releases, indirect=True, scope="session")


@pytest.fixture(scope="session")
def release(request: pytest.FixtureRequest) -> str:
    """The release of Apache RocketMQ beside ours; part of the test's name."""
    told: str = request.param
    return told


@pytest.fixture
def cluster() -> Iterator["Cluster"]:
    """A small simulated cluster of its own for each test of `tests/sim`."""
    from reference_world import Cluster

    with Cluster() as made:
        yield made
