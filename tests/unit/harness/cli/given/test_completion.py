"""What a shell is offered, and that it is noted once."""

from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from maxq.harness.cli.given.completion import Table, items, table_of
from maxq.harness.cli.main import cli

COMMANDS = cli.list_commands(click.Context(cli))


def offered(cache: Path, *words: str) -> list[str]:
    *args, incomplete = words
    found = items(args, incomplete, COMMANDS, lambda name: table_of(cli, name, cache))
    return [str(item.value) for item in found]


@pytest.mark.parametrize(
    "words",
    [
        ("t",), ("--v",), ("test", "--tar"), ("test", "--target", "rocketmq:5.4"),
        ("test", "--nemesis", "kill,par"), ("test", "--seed", "1", "--pl"), ("list", "mu"),
        ("scenario", "replicas_sh"), ("replay", ""),
    ],
)  # fmt: skip
def test_it_is_what_click_offers(words: tuple[str, ...], tmp_path: Path) -> None:
    theirs = BashComplete(cli, {}, "maxq", "").get_completions(list(words[:-1]), words[-1])
    ours = offered(tmp_path, *words)
    assert ours
    assert set(ours) == {str(item.value) for item in theirs}


def test_what_was_noted_is_not_made_again_until_the_code_changes(tmp_path: Path) -> None:
    made = table_of(cli, "list", tmp_path)
    assert table_of(click.Group(), "list", tmp_path) == made, "nothing is imported"
    (tmp_path / "list.json").write_bytes(b'{"stamp": "another", "taken": []}')
    assert table_of(cli, "list", tmp_path) == made
    (tmp_path / "list.json").write_bytes(b"damaged")
    assert table_of(cli, "list", tmp_path) == made


def test_a_home_that_cannot_be_written_to_completes_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert isinstance(table_of(cli, "list", tmp_path / "file"), Table)
