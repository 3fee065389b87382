"""What may be called how, and where that leads on a disk."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from maxq.reference.names import (
    DLQ_PREFIX,
    FOLDER_BYTES_MAX,
    GROUP_CHARS_MAX,
    RETRY_PREFIX,
    broker_name_fault,
    folder_of,
    group_name_fault,
    topic_name_fault,
)


@pytest.mark.parametrize("text", ["", " ", "a/b", "a\0b", "..", "a b", "é", "x" * 256])
def test_illegal_names_are_said_to_be(text: str) -> None:
    assert topic_name_fault(text) is not None
    assert group_name_fault(text) is not None


@given(st.text("%|aZ09_-RETDLQ", min_size=1, max_size=300))
def test_the_topics_of_a_legal_group_are_legal(group: str) -> None:
    if group_name_fault(group) is None:
        assert topic_name_fault(RETRY_PREFIX + group) is None
        assert topic_name_fault(DLQ_PREFIX + group) is None


def test_a_group_may_be_as_long_as_its_retry_topic_lets_it() -> None:
    assert group_name_fault("g" * GROUP_CHARS_MAX) is None
    assert "longer" in (group_name_fault("g" * (GROUP_CHARS_MAX + 1)) or "")


@pytest.mark.parametrize(
    ("name", "legal"),
    [("broker-a", True), ("node1.example.com", True), ("x" * 127, True), ("x" * 128, False),
     ("", False), ("a b", False), ("a#1", False), ("../a", False), ("a\n", False)],
)  # fmt: skip
def test_names_of_brokers_and_clusters(name: str, legal: bool) -> None:
    assert (broker_name_fault(name) is None) is legal


@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "a|b_c-9", "%DLQ%" + "x" * 249])
def test_a_legal_topic_has_the_folder_that_java_gives_it(topic: str) -> None:
    assert folder_of(topic) == topic


TOPICS = st.one_of(
    st.text(max_size=300), st.sampled_from(["..", ".", "", "/", "a/b", "a\0b", "\ud800", "x" * 300])
)


@given(TOPICS, TOPICS)
def test_any_other_topic_has_a_safe_folder_of_its_own(one: str, other: str) -> None:
    folder = folder_of(one)
    assert 0 < len(folder.encode()) <= FOLDER_BYTES_MAX
    assert not set(folder) & {"/", "\0", "."}
    assert (one == other) is (folder == folder_of(other))
