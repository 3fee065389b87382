"""A slave copies its master's topics, but for those that have attributes.

It does not know how to read them. Consumers find none of these topics at it when it acts. Breaks
A12, as RocketMQ 5.3.3 does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from maxq.reference.broker.store.topics import Tables
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.route import TopicConfigSerializeWrapper

FAMILY = "pair"
CLAIM = "A12"
SOURCE = "RocketMQ 5.3.3, whose slaves do not keep topics with attributes (#9403)"


@contextmanager
def mutant() -> Iterator[None]:
    """Leave them out."""
    honest = Tables.adopt_topics

    async def adopt_topics(
        self: Tables, theirs: TopicConfigSerializeWrapper, valid: Callable[[], bool]
    ) -> None:
        plain = {name: t for name, t in theirs.topic_config_table.items() if not t.attributes}
        if len(plain) < len(theirs.topic_config_table):
            diverged(__name__)
        await honest(self, replace(theirs, topic_config_table=plain), valid)

    with replaced(Tables, "adopt_topics", adopt_topics):
        yield
