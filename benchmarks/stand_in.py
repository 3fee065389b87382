"""The command line of Max-Q, where our reference plays every release of Apache RocketMQ.

    python -m benchmarks.stand_in scorecard --versions 5.5.0

For what is measured of a command and not of a release, such as how soon it ends: neither a JVM nor
Maven is needed. What such a run says of a release is nothing. Worker processes import this module
as well, and so have the same stand-in.
"""

from maxq.harness.cli.main import main
from maxq.harness.contracts.target import Target
from maxq.harness.environments.docker import PYTHON
from maxq.harness.run import execute
from maxq.harness.schedule.options import Options
from maxq.harness.targets.reference import ReferenceTarget


def stand_in(name: str, options: Options) -> Target:
    """The reference, whatever is asked for."""
    return ReferenceTarget(PYTHON) if options.environment == "docker" else ReferenceTarget()


execute._target = stand_in

if __name__ == "__main__":
    main()
