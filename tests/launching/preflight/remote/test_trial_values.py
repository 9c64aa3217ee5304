"""What a trial's lines come to, and what is remembered of it."""

from pathlib import Path

import pytest

from torchdeck.launching.preflight.remote import further
from torchdeck.launching.preflight.remote.trial import MARK, STAGES, Measured, _Part, _stuck, _take


def answer(*lines: str, code: int | None = None) -> dict[str, object]:
    return {"lines": [MARK + line for line in lines], "code": code, "errors": ""}


def test_the_slowest_rank_says_how_far_a_node_is() -> None:
    """torchrun's own stage counts until all ranks have said something; noise between lines is passed over."""
    part = _Part(range(2))
    assert part.least == "asked"
    assert _take(part, answer('{"stage": "torchrun"}'))
    assert not _take(part, {"lines": ["a warning", MARK + "{torn"], "code": None, "errors": ""})
    assert _take(part, answer('{"rank": 0, "stage": "joined"}'))
    assert part.least == "torchrun"
    assert _take(part, answer('{"rank": 1, "stage": "imported"}'))
    assert part.least == "imported"
    assert not _take(part, answer())
    assert _take(part, answer('{"rank": 1, "stage": "failed", "why": "no way"}', code=1))
    assert (part.why, part.code) == ("no way", 1)


def test_a_node_that_only_talks_comes_no_further() -> None:
    """What is said again, of earlier stages or of more ranks than were asked for keeps no trial up."""
    part = _Part(range(2))
    assert _take(part, answer('{"rank": 4, "stage": "joined"}', '{"rank": 5, "stage": "joined"}'))
    assert _take(part, answer('{"stage": "torchrun"}'))
    for line in (
        '{"rank": 4, "stage": "joined"}',
        '{"rank": 4, "stage": "started"}',
        '{"rank": 6, "stage": "done"}',
        '{"stage": "asked"}',
        '{"stage": "torchrun"}',
    ):
        assert not _take(part, answer(line))
    assert part.least == "joined"


@pytest.mark.parametrize("behind", STAGES[:-1])
def test_who_is_furthest_behind_is_named(behind: str) -> None:
    parts = {"a": _Part(range(1), stages={0: "done"}), "b": _Part(range(1), stage=behind)}
    if behind not in STAGES[:2]:
        parts["b"].stages[0] = behind
    found = _stuck(parts, 15.0)
    assert (found.node, found.why.startswith("node b: no progress for 15 s")) == ("b", True)


def test_what_was_measured_is_remembered(tmp_path: Path) -> None:
    """By fingerprint, the newest ones; a damaged file is as good as none."""
    assert further.recall(tmp_path, "x") is None
    for number in range(further.KEPT + 3):
        further.remember(tmp_path, f"k{number}", Measured(0.001, 1e9 + number, 2))
    known = further.recall(tmp_path, f"k{further.KEPT + 2}")
    assert known is not None
    assert known[0].bandwidth == 1e9 + further.KEPT + 2
    assert 0 <= known[1] < 60
    assert further.recall(tmp_path, "k0") is None
    (tmp_path / "measured_nodes.json").write_text("{")
    assert further.recall(tmp_path, "k9") is None
