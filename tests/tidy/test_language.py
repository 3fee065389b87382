"""Plain English where users read: no words of our own, and sentences of at most 25 words.

Held are all pages of the tree and every help text. Code in backticks counts as one word; tables
are read cell by cell; blocks of code are left out.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tree_names import MODULES, PAGES, ROOT, defined, parsed

from maxq.harness.cli.main import cli

WORDS_MAX = 25
# Ours, and what to write instead; architecture.md has the same as a glossary.
OURS = {
    r"anew": "again",
    r"at hand": "there",
    r"at work": "in effect",
    r"bec(?:omes?|ame) of": "happens to",
    r"befalls?|befell|befallen": "happens to",
    r"beforehand": "first",
    r"bitten": "took effect",
    r"br(?:ings?|ought) about": "causes",
    r"drawn (?:schedule|run|seed)s?|same draws": "random",
    r"for good": "permanently",
    r"forfeit(?:ed|s)?": "no longer promised",
    r"g(?:ives?|ave) way": "yields",
    r"grounds?": "evidence",
    r"hence": "so",
    r"in force": "in effect",
    r"in peace": "undisturbed",
    r"in vain": "without success",
    r"likewise": "also",
    r"lulls?": "quiet period",
    r"mend(?:s|ed|ing)?": "fix",
    r"made[- ]up": "generated",
    r"occasions?": "coverage",
    r"reigns?": "term",
    r"st(?:ands?|ood) still": "is paused",
    r"stretch(?:es)? (?:in|of|without)": "period",
    r"the like": "similar",
    r"thus": "so",
    r"told(?! apart)": "reported",
    r"wants? of": "without",
    r"whoever": "the one that",
}
FORBIDDEN = re.compile(rf"\b(?:{'|'.join(OURS)})\b", re.IGNORECASE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. |\s*\||#)")
HEADING = re.compile(r"^#.*$", re.MULTILINE)
# In files these words stay as they are: a status, an option's older spelling.
KEPT = re.compile(r"`[^`]*`")
CLAIMS = re.compile(r"\b[SAPNBOEL]\d+[a-d]?(?:, [SAPNBOEL]\d+[a-d]?)+")  # a list is one word


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page or a text, code as one word."""
    for block in map(str.strip, ITEM.split(HEADING.sub(r"\g<0>\n", FENCE.sub("\n\n", text)))):
        for part in block.strip("|").split("|") if block.startswith("|") else [block]:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", KEPT.sub("x", part.strip()))
            plain = CLAIMS.sub("x", plain)
            plain = re.sub(r"^(?:[-*#]+|\d+\.) ", "", plain)
            yield from re.split(r"(?<=[.!?])[\s)]+(?=\S)", " ".join(plain.split()))


def complaints(text: str) -> list[str]:
    """Words of our own, and sentences that are too long."""
    found = [f"{len(s.split())} words: {s}" for s in sentences(text) if len(s.split()) > WORDS_MAX]
    ours = (f"{m.group()!r} in: {s}" for s in sentences(text) for m in FORBIDDEN.finditer(s))
    return [*found, *ours]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain(page: Path) -> None:
    assert complaints(page.read_text()) == []


OPTIONS_MAX = 14  # twelve, `--help-all` and `--help`


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_help_is_plain_and_short(name: str) -> None:
    """Each command and each option says what it is for, and `--help` shows what matters."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [p for p in command.params if isinstance(p, click.Option)]
    for text in (command.help, *(option.help for option in options)):
        assert text, [o.opts for o in options if not o.help]
        assert complaints(text) == []
    shown = click.Context(command, info_name=name).get_help()
    rows = [line for line in shown.splitlines() if re.match(r"  -", line)]
    assert len(rows) <= OPTIONS_MAX
    every = any("--help-all" in option.opts for option in options)
    assert every or len(options) < OPTIONS_MAX


SCREENS = ("checkers", "harness", "histories", "nemeses", "workloads")
STATUS = "no occasion"  # a value of files; `status_in_words` says what screens call it


def spoken(path: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings: what it may print, of two words or more."""
    tree = parsed(path)
    docstrings = {
        id(node.body[0].value)
        for node in defined(tree)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            said = node.value
            if isinstance(said, str) and " " in said.strip() and said != STATUS:
                yield KEPT.sub("x", said)


@pytest.mark.parametrize("folder", SCREENS)
def test_no_screen_has_words_of_our_own(folder: str) -> None:
    for path in (p for p in MODULES if p.relative_to(ROOT).parts[0] == folder):
        for text in spoken(path):
            assert not FORBIDDEN.search(text), f"{path.name}: {text}"


@pytest.mark.parametrize("folder", [*SCREENS, "reference", "spark_checkers"])
def test_no_module_opens_with_words_of_our_own(folder: str) -> None:
    for path in (p for p in MODULES if p.relative_to(ROOT).parts[0] == folder):
        opens = KEPT.sub("x", ast.get_docstring(parsed(path)) or "")
        assert [m.group() for m in FORBIDDEN.finditer(opens)] == [], path.name


def test_the_rule_sees_what_it_forbids() -> None:
    assert complaints("A fault has bitten. `lull` is a field.") == [
        "'bitten' in: A fault has bitten."
    ]
    assert complaints("word " * 26 + ".") != []
    assert complaints("word " * 12 + ". " + "word " * 24 + ".") == []
