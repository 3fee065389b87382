"""Which releases of Apache RocketMQ tests marked `rocketmq` run; a fixture of simulated tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from maxq.harness.targets.rocketmq.releases import MISSING

if TYPE_CHECKING:
    from reference_world import Cluster

RELEASES = "5.5.0"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rocketmq",
        default=RELEASES,
        metavar="RELEASE,…",
        help=f"releases of Apache RocketMQ for the tests marked rocketmq (default: {RELEASES})",
    )


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
