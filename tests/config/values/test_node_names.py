"""Many nodes in a few characters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.values.node_names import MOST, NodeNameError, expand, expand_all


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu7", ("gpu7",)),
        ("gpu[8-11]", ("gpu8", "gpu9", "gpu10", "gpu11")),
        ("gpu[08-11]", ("gpu08", "gpu09", "gpu10", "gpu11")),
        ("gpu[000]", ("gpu000",)),
        ("gpu[1,3,5-6].lan", ("gpu1.lan", "gpu3.lan", "gpu5.lan", "gpu6.lan")),
        ("r[1-2]g[0-1]", ("r1g0", "r1g1", "r2g0", "r2g1")),
        ("10.0.0.[1-2]", ("10.0.0.1", "10.0.0.2")),
    ],
)
def test_ranges(text: str, names: tuple[str, ...]) -> None:
    """Numbers and ranges in brackets, every combination, as wide as they are written."""
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "not a valid name"),
        (" gpu", "not a valid name"),
        ("gpu 1", "not a valid name"),
        ("a/gpu1", "not a valid name"),
        ("..", "not a valid name"),
        ("gpu[1, 2]", "not a valid name"),
        ("-oProxyCommand=x", "not a valid name"),
        ("gpu[1-2", "brackets do not match"),
        ("gpu1]", "brackets do not match"),
        ("gpu[[1]]", "brackets do not match"),
        ("gpu[]", "not a range"),
        ("gpu[a-b]", "not a range"),
        ("gpu[1-2-3]", "not a range"),
        ("gpu[-1]", "not a range"),
        ("gpu[1,]", "not a range"),
        ("gpu[٣]", "not a range"),
        ("gpu[5-1]", "descending range"),
        (f"gpu[1-{MOST + 1}]", f"at most {MOST}"),
        ("a[1-1000]b[1-1000]", "names 1000000 nodes"),
        ("gpu[1-999999999]", f"at most {MOST}"),
    ],
)
def test_what_names_no_nodes(text: str, wrong: str) -> None:
    """A slip is one sentence, and never millions of names."""
    with pytest.raises(NodeNameError, match=wrong.replace("[", r"\[")):
        expand(text)


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(0, 300), st.integers(1, 6))
def test_a_range_is_its_numbers(first: int, more: int, width: int) -> None:
    """As Python would write them."""
    text = f"n[{first:0{width}d}-{first + more:0{width}d}]"
    padded = len(str(first)) < width
    expected = [
        f"n{number:0{width if padded or first == 0 else 0}d}" for number in range(first, first + more + 1)
    ]
    assert list(expand(text)) == expected


def test_what_cannot_be_expanded_stands_for_itself() -> None:
    """Its fault is said elsewhere."""
    assert expand_all(["a[1-2]", "b[", "c"]) == ["a1", "a2", "b[", "c"]
