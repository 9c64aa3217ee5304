"""Names of files as text."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.file_names import checked_name, name_of, text_of

NAMES = st.binary(min_size=1, max_size=20).filter(lambda raw: b"\0" not in raw).map(os.fsdecode)


@given(NAMES)
def test_every_name_comes_back_byte_for_byte(name: str) -> None:
    text = text_of(name)
    assert os.fsencode(name_of(text)) == os.fsencode(name)
    assert text.encode("utf-8")


@given(NAMES, NAMES)
def test_no_two_names_have_the_same_text(one: str, other: str) -> None:
    assert (text_of(one) == text_of(other)) == (one == other)


def test_what_a_person_reads() -> None:
    assert text_of("a b\nc ü") == "a b\nc ü"
    assert text_of(os.fsdecode(b"a\xff\\")) == "a\\xff\\\\"


@pytest.mark.parametrize(
    "text", ["", "/a", "a//b", "../a", "a/../b", ".", "a/", "a\0", "\\", "\\x61", "a\\xf", "\\\\\\"]
)
def test_what_leads_out_or_is_no_name_is_refused(text: str) -> None:
    """`\\x61` too, as the name `a` has another text: what was checked could differ from what is written."""
    with pytest.raises(ValueError, match=r"is not the name|is the text of no"):
        checked_name(text)
