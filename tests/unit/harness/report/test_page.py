"""The page as a whole: it escapes everything, loads nothing, holds what it should, stays small."""

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from html.parser import HTMLParser

import msgspec
import pytest
from report_evidence import ATTACK, evidence, hostile, large

from maxq.checkers.core.titles import TITLES
from maxq.harness.report.markup import el, join, text
from maxq.harness.report.page import guarded, render
from maxq.harness.report.plot import axis
from maxq.harness.report.timescale import TimeScale

PARTS = ("findings", "claims", "anomalies", "timeline", "latency", "faults", "recovery",
         "operations", "checkers", "setup")  # fmt: skip
# All that a page is made of. Nothing of it loads anything; links go to places in the page.
TAGS = {
    *("html", "head", "meta", "title", "style", "script", "body", "a", "div", "header", "main"),
    *("footer", "nav", "section", "h1", "h2", "h3", "p", "pre", "code", "b", "small", "span"),
    *("ul", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "details"),
    *("summary", "button", "output", "svg", "defs", "g", "line", "rect", "path", "text", "use"),
    *("tspan", "figure", "figcaption", "input"),
}
ATTRIBUTES = {
    *("id", "class", "href", "lang", "charset", "content", "name", "http-equiv", "role", "hidden"),
    *("tabindex", "type", "scope", "open", "aria-label", "aria-hidden", "aria-live", "data-x"),
    *(
        "data-w",
        "data-from",
        "data-to",
        "data-do",
        "data-marks",
        "width",
        "height",
        "viewbox",
        "preserveaspectratio",
        "x",
    ),
    *("y", "x1", "x2", "y1", "y2", "rx", "d", "fill", "visibility", "min", "max", "step", "value"),
    *("data-as", "data-is", "data-at", "data-now", "data-events", "data-step", "data-head"),
}


class Reader(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str, str]] = set()
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.told = ""
        self.comments: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name, value or "") for name, value in attrs}
        if tag in self.inside:
            self._within = tag
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.inside[self._within][-1] += data
        else:
            self.told += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_a_hostile_history_is_shown_and_does_nothing() -> None:
    page = render(hostile())

    reader = read(page)
    assert "could not be drawn" not in page
    assert reader.tags <= TAGS
    assert {name for _, name, _ in reader.attributes} <= ATTRIBUTES
    for tag, name, value in reader.attributes:
        if name == "href":
            assert re.fullmatch(r"#[a-z0-9-]+", value), (tag, value)
        if name in ("id", "class", "data-do", "fill", "d", "data-marks", "data-as", "data-at"):
            assert "attack" not in value
    assert len(reader.inside["script"]) == len(reader.inside["style"]) == 1
    assert "attack" not in "".join(reader.inside["script"] + reader.inside["style"])
    assert reader.comments == []
    # It was there to be shown: in full, but for what cannot be shown.
    assert reader.told.count("<script>attack()</script>") > 20
    assert "\\u202e\\ud800\\u2028" in reader.told
    for odd in "\0\r\u202e\ud800\u2028":
        assert odd not in page


def test_the_policy_allows_this_style_and_this_script_and_nothing_else() -> None:
    reader = read(render(hostile()))

    (policy,) = [v for _, name, v in reader.attributes if name == "content" and "-src" in v]
    assert policy.startswith("default-src 'none'; ")
    for kind in ("style", "script"):
        digest = b64encode(sha256(reader.inside[kind][0].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


def test_style_and_script_name_no_address() -> None:
    reader = read(render(evidence([])))
    text_of = "".join(reader.inside["style"] + reader.inside["script"])
    text_of = text_of.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, never asked for
    for word in ("http:", "https:", "url(", "@import", "fetch", "XMLHttp", "innerHTML", "eval("):
        assert word not in text_of


def test_a_page_says_which_fault_took_the_place_of_another() -> None:
    given = evidence([])
    options = msgspec.structs.replace(given.options, nemesis=("kill",), stand_ins={"power": "kill"})
    assert "kill in place of power" in render(msgspec.structs.replace(given, options=options))
    assert "in place of" not in render(given)


def test_claims_that_a_target_cannot_show_are_in_words() -> None:
    given, absent = evidence([]), ("S1", "S9", "L3")
    context = msgspec.structs.replace(given.context, absent=absent)
    page = render(msgspec.structs.replace(given, context=context))
    assert "<summary>3 claims that this target cannot show</summary>" in page
    for claim in absent:
        assert f"{escape(TITLES[claim], quote=True)} ({claim})" in page


def test_a_time_is_written_only_where_it_fits_before_the_edge() -> None:
    drawn = str(axis(TimeScale(start_ns=0, end_ns=80_100_000_000)))
    shown = {m[2]: m[1] for m in re.finditer(r"<text([^>]*)>([^<]*)</text>", drawn)}
    assert "hidden" not in shown["10 s"]
    assert "hidden" in shown["80 s"]


def test_an_empty_history_has_a_whole_page() -> None:
    page = render(evidence([]))
    assert "could not be drawn" not in page
    assert {f'id="{part}"' for part in PARTS} <= set(re.findall(r'id="\w+"', page))


def test_a_page_is_a_function_of_its_evidence() -> None:
    assert render(hostile()) == render(hostile())


def test_every_link_leads_somewhere() -> None:
    reader = read(render(hostile()))
    ids = {value for _, name, value in reader.attributes if name == "id"}
    links = {value[1:] for _, name, value in reader.attributes if name == "href"}
    assert links <= ids


def test_a_part_that_cannot_be_drawn_leaves_the_others() -> None:
    told = guarded(lambda: [1 / 0]).text
    assert "could not be drawn" in told
    assert "ZeroDivisionError" in told


def test_two_hundred_thousand_operations_fit_in_a_few_megabytes() -> None:
    page = render(large(200_000))
    assert "could not be drawn" not in page
    assert len(page.encode()) < 2_000_000
    assert "points stand for" in page


@pytest.mark.parametrize("name", ["onclick", "style", "a b", "x>", ""])
def test_markup_refuses_impossible_and_running_attributes(name: str) -> None:
    with pytest.raises(ValueError, match="no name of"):
        el("p", **{name: "x"})


def test_markup_escapes_by_construction() -> None:
    assert text(ATTACK).text == join([[ATTACK]]).text
    assert el("p", "<b>", class_='"x').text == '<p class="&quot;x">&lt;b&gt;</p>'
    assert el("rect", width=3, hidden=True, x=None).text == '<rect width="3" hidden/>'
