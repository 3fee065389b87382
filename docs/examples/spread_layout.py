"""Example layout: three machines. One has the masters of two sets, the two others have the slaves.

    maxq test --plugin spread_layout --layout spread --mode pair

What a container with all masters takes along is tested: a fault of it strikes every set at once.
With controllers a set has a slave in each of the other containers, so a set can go on without its
first master.
"""

from maxq.harness.run.plugins import LayoutKind


def container_of(broker_set: int, replica: int) -> str:
    """Where a broker is: two slaves of one set are apart, so one fault takes one of them."""
    return f"k{1 + (broker_set + replica) % 2}" if replica else "k0"


SPREAD = LayoutKind(
    name="spread",
    about="three containers: one has the masters of two sets, the others have the slaves",
    sets=2,
    replicas=3,  # with controllers; a pair has two
    container_of=container_of,
)
