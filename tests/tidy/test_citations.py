"""Whatever a text of the tree refers to is in the tree: pages, sections, links, modules, names.

A citation is a page and its sections, as in ``docs/spec/remoting.md 2.4, 2.7 and 4 to 5 (rule 2)``;
what is in brackets behind a section (a rule, a step, a hazard) must stand in that section. A page
of another repository bears its name: ``apache/rocketmq:docs/en/controller/design.md``. In single
backticks stand names of ours, in double ones what is foreign or not a name.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tree_names import MODULES, PACKAGES, PAGES, ROOT, defined, parsed, tree

SECTION = r"\d+(?:\.\d+)*"
BRACKET = r"(?: \([^()]*\))?"
CITATION = re.compile(
    r"(?<![\w/:.-])(?P<page>(?:docs/[\w./-]+|[A-Z]+)\.md)"
    rf"(?P<sections> {SECTION}{BRACKET}(?:(?:, (?=\d+\.\d)| and | to ){SECTION}{BRACKET})*)?"
)
ONE = re.compile(rf"({SECTION})(?: \(([^()]*)\))?")
HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)
NUMBERED = re.compile(rf"({SECTION})\.? ")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TICKED = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+?)\1(?!`)")
PATH = re.compile(r"(?P<top>[\w.-]+)(?:/[\w.-]+)+\.(?:py|md|toml|jsonl|sh)")
DOTTED = re.compile(rf"(?:maxq\.)?(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
SHORT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
NAME = re.compile(r"_?[a-z]\w*_\w+|_?[A-Z][a-z]+[A-Z]\w*|[A-Z]+_[A-Z_]+|_[a-z]\w+")
SNAKE = re.compile(r"[a-z]+(?:_\w+)+")
HAZARD = re.compile(r"\bH[1-9]\d?[a-d]?\b")
BARE = re.compile(r"(?:[SLN]\d+[a-z]?, )*\d\d?\.\d\d?(?:\.\d)?(?:[,:;]| and | step | \()")
# Put together so that this file does not hold what it looks for.
ABSENT = re.compile(
    "our rea" + "ding|house " + r"(?:style|plan|rule)|\bissue \W?\d|the iss" + "ue:|project's iss"
    r"ue|sha" + r"red/|\b[Dd]esign \d|\bstyle \d"
)


class Text(NamedTuple):
    """A docstring, a comment, or a page."""

    path: Path
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def texts_of(path: Path) -> Iterator[Text]:
    """The docstrings of a module, and its comments, those on lines that follow as one."""
    for node in defined(parsed(path)):
        match node.body[:1]:
            case [ast.Expr(value=ast.Constant(value=str(said)), lineno=at)]:
                yield Text(path, at, said)
    comment, begun = "", 0
    for number, line in enumerate([*path.read_text().split("\n"), ""], 1):
        found = re.search(r"(?:^|\s)# (.*)", line)
        if found is None or found.group().lstrip() != line.lstrip():
            if comment:
                yield Text(path, begun, comment)
            comment = ""
        if found is not None:
            comment, begun = f"{comment}\n{found.group(1)}", begun if comment else number


@cache
def written() -> tuple[Text, ...]:
    """Every text of ours."""
    pages = [Text(p, 1, p.read_text()) for p in PAGES]
    return (*pages, *(text for path in MODULES for text in texts_of(path)))


def flat(text: str) -> str:
    """A text as one line; of code also without the quotes between two parts of one string."""
    return re.sub(r'"?\n\s*(?:# ?|")?', " ", re.sub(r' "\n\s*"', " ", text))


@cache
def sections(page: Path) -> dict[str, str]:
    """The numbered sections of a page, each with what stands in it and in those below it."""
    text = page.read_text()
    heads = [h for h in HEADING.finditer(text) if NUMBERED.match(h.group(2))]
    found = {}
    for at, head in enumerate(heads):
        following = (h for h in heads[at + 1 :] if len(h.group(1)) <= len(head.group(1)))
        end = next((h.start() for h in following), len(text))
        number = NUMBERED.match(head.group(2))
        found[number.group(1) if number else ""] = text[head.end() : end]
    return found


def faults_of(page: str, cited: str | None) -> Iterator[str]:
    """What of a citation is not there."""
    path = ROOT / page
    if not path.is_file():
        yield f"no page {page}"
        return
    for number, bracket in ONE.findall(cited or ""):
        if number not in sections(path):
            yield f"{page} has no section {number}"
            continue
        inside = sections(path)[number]
        for hazard in HAZARD.findall(bracket):
            if f"| {hazard.rstrip('abcd')} |" not in inside:
                yield f"{page} {number} has no {hazard}"
        kind = re.match(r"(?:rules?|steps?) ", bracket)
        for item in re.findall(r"\d+", bracket) if kind else ():
            if not re.search(rf"^{item}\. |\({item}\) ", inside, re.MULTILINE):
                yield f"{page} {number} has no {bracket}"


def cited() -> Iterator[tuple[Path, str, str | None]]:
    """Every citation in the raw text of modules and pages: where, page, sections."""
    for path in (*MODULES, *PAGES):
        text = path.read_text()
        if path != Path(__file__):
            for found in CITATION.finditer(flat(text)):
                page = found["page"]
                own = "/" not in page and (path.parent / page).is_file()
                name = str((path.parent / page).relative_to(ROOT)) if own else page
                yield path, name, found["sections"]


def test_every_cited_page_and_section_exists() -> None:
    all_cited = list(cited())
    wrong = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path, page, numbers in all_cited
        for fault in faults_of(page, numbers)
    ]
    assert not wrong, "\n".join(wrong)
    assert len([c for c in all_cited if c[2]]) > 200, "the pattern finds what there is"


def test_sections_and_hazards_are_cited_with_their_page() -> None:
    """No bare number, no short name of a page."""
    stems = [p.stem for p in (ROOT / "docs" / "spec").glob("*.md") if "-" in p.stem]
    short = re.compile(rf"(?<![\w/])(?:{'|'.join(stems)})(?!\w)")
    wrong = []
    for text in written():
        if text.path.parent.name == "spec":
            continue
        rest = CITATION.sub("", flat(text.text))
        wrong += [f"{text.where}: {m.group()}" for m in HAZARD.finditer(rest)]
        if text.path.suffix == ".py":
            wrong += [f"{text.where}: {m.group()}" for m in short.finditer(rest)]
            wrong += [f"{text.where}: {text.text[:40]!r}" for _ in [0] if BARE.match(text.text)]
    assert not wrong, "\n".join(wrong)


def test_nothing_refers_to_what_a_clone_lacks() -> None:
    wrong = [f"{t.where}: {m.group()}" for t in written() for m in ABSENT.finditer(t.text)]
    assert not wrong, "\n".join(wrong)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text())
    names = (re.sub(r"[^\w\- ]", "", h.group(2).lower()) for h in HEADING.finditer(text))
    return {name.replace(" ", "-") for name in names}


def test_links_of_pages_lead_somewhere() -> None:
    wrong = []
    for page in PAGES:
        for target in LINK.findall(FENCE.sub("", page.read_text())):
            if "://" in target:
                continue
            file, _, anchor = target.partition("#")
            there = page.parent / file if file else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
    assert not wrong, "\n".join(wrong)


def is_there(text: Text, name: str, *, foreign: bool) -> bool:
    """Whether a name in backticks is in the tree, if it looks like one of ours."""
    name = name.removesuffix("()")
    path = PATH.fullmatch(name)
    if path is not None and (name.endswith(".py") or (ROOT / path["top"]).exists()):
        return (ROOT / name).exists() or (text.path.parent / name).exists()
    if DOTTED.fullmatch(name):
        return tree().has(name)
    if foreign:
        return True
    if text.path.suffix != ".py":
        return not SNAKE.fullmatch(name) or name in tree().words
    if SHORT.fullmatch(name):
        return tree().has_short(name) is not False
    return not NAME.fullmatch(name) or name in tree().words


def test_names_in_backticks_exist() -> None:
    wrong = [
        f"{text.where}: {name}"
        for text in written()
        for ticks, name in TICKED.findall(FENCE.sub("", text.text))
        if not is_there(text, name, foreign=ticks == "``")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("page", "numbers", "lacks"),
    [
        ("remoting", " 2.4 and 99.1", " has no section 99.1"),
        ("controller-ha", " 6.4 (H99)", " 6.4 has no H99"),
        ("controller-ha", " 6.5 (rule 3)", ""),
        ("controller-ha", " 6.5 (rule 11)", " 6.5 has no rule 11"),
    ],
)
def test_a_citation_of_nothing_is_found(page: str, numbers: str, lacks: str) -> None:
    path = f"docs/spec/{page}.md"
    assert list(faults_of(path, numbers)) == ([path + lacks] if lacks else [])
    assert list(faults_of("docs/nowhere.md", None)) == ["no page docs/nowhere.md"]


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("maxq.checkers.core.claims.CLAIMS", True),
        ("maxq.checkers.core.claim.Claim.promise", True),
        ("maxq.checkers.core.claim.Claim.nothing", False),
        ("checkers.nothing", False),
        ("checkers.core.claims", False),
        ("maxq.histories", True),
    ],
)
def test_names_are_resolved_from_the_tree(name: str, there: bool) -> None:
    assert tree().has(name) is there
