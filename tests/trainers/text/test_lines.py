"""Lines out of a log that grows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.trainers.text.lines import UNENDED_LIMIT, split_lines


def test_lines_and_where_they_end() -> None:
    """Newlines, carriage returns and both end a line; an unended rest is left for later."""
    assert list(split_lines(b"one\ntwo\r\nthree\rfour")) == [("one", 4), ("two", 8), ("three", 15)]


def test_bytes_that_are_no_utf8() -> None:
    """A byte that is no text is replaced; the end is counted in bytes, not in characters."""
    assert list(split_lines(b"\xff\xc3\xa9\n")) == [("\ufffdé", 4)]


def test_line_without_end_is_given_up() -> None:
    """What never ends is a line at some point, so that reading gets on."""
    assert list(split_lines(b"x" * (UNENDED_LIMIT - 1))) == []
    ((line, end),) = split_lines(b"x" * UNENDED_LIMIT)
    assert (len(line), end) == (UNENDED_LIMIT, UNENDED_LIMIT)


@settings(deadline=None)
@given(st.binary(max_size=200).map(lambda text: text.replace(b"\0", b"\n")), st.integers(1, 20))
def test_however_the_bytes_arrive_the_lines_are_the_same(content: bytes, portion: int) -> None:
    """Read in portions, going on where the last call stopped, the same lines come out."""
    found, start = [], 0
    for end in range(portion, len(content) + portion, portion):
        lines = list(split_lines(content[start:end]))
        found += [line for line, _ in lines]
        start += lines[-1][1] if lines else 0
    assert found == [line for line, _ in split_lines(content)]
