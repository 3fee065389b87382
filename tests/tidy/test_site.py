"""The site's navigation has every page that readers are led to, in the order of the index."""

import re

from tree_names import PAGES, ROOT

CONFIG = (ROOT / "docs" / "mkdocs.yml").read_text()
NAVIGATION = re.findall(r"^ +- ([\w./-]+\.md)$", CONFIG, re.MULTILINE)
OF_TESTS = {"tests/e2e/java/README.md"}  # no page leads there


def test_the_navigation_has_every_page_once() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in PAGES} - OF_TESTS
    assert sorted(NAVIGATION) == sorted(pages)


def test_the_navigation_follows_the_index() -> None:
    """A section for each kind of reader, with the pages of the index in its order."""
    index = (ROOT / "docs" / "README.md").read_text()
    readers = re.findall(r"^## (.+)$", index, re.MULTILINE)
    assert re.findall(r"^  - (.+):$", CONFIG, re.MULTILINE) == readers
    linked = re.findall(r"\]\(([\w./-]+\.md)\)", index)
    led = [name.removeprefix("../") if "../" in name else f"docs/{name}" for name in linked]
    assert [name for name in NAVIGATION if name in led] == led
