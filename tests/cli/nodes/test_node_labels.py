"""Names that are too long for where they stand."""

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.cli.plan.placement import node_name, shortened

LONG = "a-machine-with-a-name-that-goes-on-{:04d}.rack{}.cluster.example.org"


def label(name: str, length: int) -> str:
    return node_name(name, lambda text: len(text) <= length)


def test_numbers_stay() -> None:
    """What nodes of a cluster differ in is left, whatever else goes."""
    assert label(LONG.format(7, 2), 24) == "a-machine-wi…0007.rack2…"
    assert label(LONG.format(12, 1), 12) == "…0012.rack1…"
    assert label("gpu-node-of-the-upper-floor-3", 12) == "gpu-node-o…3"
    assert label("gpu7.example.org", 24) == "gpu7.example.org"


def test_a_name_without_numbers_keeps_its_ends() -> None:
    """As any other text."""
    assert label("workstation.example.org", 11) == shortened("workstation.example.org", 11) == "works…e.org"


@given(st.text(alphabet="ab0.1", min_size=1, max_size=40), st.integers(1, 30))
def test_a_label_is_never_too_long(name: str, length: int) -> None:
    """And the name itself where that fits."""
    assert len(label(name, length)) <= length
    assert label(name, len(name)) == name
