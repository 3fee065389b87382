"""What the shells of nodes share."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from maxq.reference.node import as_task_of


async def answers() -> str:
    await asyncio.sleep(0)
    return "done"


async def fails() -> str:
    await asyncio.sleep(0)
    raise ValueError("planted")


@pytest.mark.parametrize(("work", "result"), [(answers, "done"), (fails, None)])
def test_work_lent_to_another_group_fails_there(work: Any, result: str | None) -> None:
    """Who waits for it goes on either way."""

    async def case() -> None:
        found: list[str | None] = []

        async def lender(group: asyncio.TaskGroup, lent: Coroutine[Any, Any, str]) -> None:
            found.append(await as_task_of(group, lent))

        async with asyncio.TaskGroup() as mine:
            try:
                async with asyncio.TaskGroup() as theirs:
                    mine.create_task(lender(theirs, work()))
                    await asyncio.sleep(0.01)
            except* ValueError:
                assert result is None
        assert found == [result]

    asyncio.run(case())


def test_an_ended_group_does_no_work() -> None:
    async def case() -> None:
        async with asyncio.TaskGroup() as group:
            await asyncio.sleep(0)
        assert await as_task_of(group, answers()) is None

    asyncio.run(case())
