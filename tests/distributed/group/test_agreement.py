"""Ranks find out at the start that they mean different things, and say which."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ranks.recipe_ranks import start_ranks, wait_for_ranks
from torchdeck.distributed.group.agreement import AgreementError, check_agreement

pytestmark = pytest.mark.processes

SCRIPT = Path(__file__).parents[2] / "support" / "ranks" / "agreement_ranks.py"
CONFIG = {"seed": 7, "config": {"training": {"lr": 0.001, "steps": 40}, "model": {"layers": [1, 2]}}}


def said(folder: Path, values: Sequence[Any]) -> str:
    """What real gloo ranks with these values say; all must say the same."""
    ranks = start_ranks({}, folder, len(values), argv=(str(SCRIPT), json.dumps(list(values))))
    lines = wait_for_ranks(ranks, folder, limit=60.0).succeeded().stdout
    assert lines == lines[:1] * len(values)
    return lines[0].strip()


def changed(**training: Any) -> dict[str, Any]:
    """CONFIG with another training table."""
    return {**CONFIG, "config": {**CONFIG["config"], "training": training}}  # type: ignore[dict-item]  # an object


def test_ranks_that_agree_go_on(tmp_path: Path) -> None:
    """Equal values, in whatever order their keys stand, are agreed upon."""
    other_order = json.loads(json.dumps(dict(reversed(CONFIG.items()))))
    assert said(tmp_path, [CONFIG, other_order]) == "agreed"


def test_the_one_that_differs_is_named(tmp_path: Path) -> None:
    """Of three ranks the first has another seed: it is named beside one that has what most have."""
    assert said(tmp_path, [{**CONFIG, "seed": 8}, CONFIG, CONFIG]) == (
        "ranks have different settings: seed is 7 on rank 1 and 8 on rank 0. "
        "Start every rank with the same config and seed"
    )


def test_fields_inside_a_config_are_named(tmp_path: Path) -> None:
    """Every differing field of a nested config is named with both values; what is long is cut."""
    ours = changed(lr=0.001, steps=40, name="a" * 500)
    theirs = changed(lr=0.01, steps=40, name="a" * 499 + "b")
    message = said(tmp_path, [ours, theirs])
    assert 'config.training.lr is 0.001 on rank 0 and 0.01 on rank 1; config.training.name is "aaa' in message
    assert "steps" not in message
    assert len(message) < 500


def test_a_field_that_one_rank_lacks_is_named(tmp_path: Path) -> None:
    """Where ranks do not even have the same fields, those are named with who has them."""
    message = said(tmp_path, [changed(lr=0.1, steps=4), changed(lr=0.1, clip=1.0)])
    assert "ranks 0 and 1 have different settings: config.training.steps (rank 0 alone); " in message
    assert "config.training.clip (rank 1 alone)" in message


class Alone:
    """A group of one rank."""

    rank, world_size = 0, 1

    def sum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def minimum(self, values: Sequence[float]) -> list[float]:
        return list(values)


def test_one_rank_agrees_with_itself() -> None:
    """A single process needs no other to agree."""
    check_agreement(Alone(), CONFIG)


def test_what_is_no_json_is_refused() -> None:
    """Values that cannot be compared between processes are a mistake of the caller's."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        check_agreement(Alone(), {"model": object()})


def test_many_differing_fields_are_counted(tmp_path: Path) -> None:
    """Five are named with their values, and how many more differ is said."""
    message = said(tmp_path, [{f"field{number}": number + rank for number in range(9)} for rank in range(2)])
    assert message.count("on rank 0 and") == 5
    assert message.endswith(
        "field4 is 4 on rank 0 and 5 on rank 1; and 4 more. Start every rank with the same config and seed"
    )


class StrangeGroup:
    """Two ranks, of which the other one sends whatever is drawn."""

    rank, world_size = 0, 2

    def __init__(self, numbers: Iterator[float]) -> None:
        self._numbers = numbers

    def sum(self, values: Sequence[float]) -> list[float]:
        assert len(values) < 1 << 24, "a stranger's number took the memory"
        return [value or next(self._numbers) for value in values]

    def minimum(self, values: Sequence[float]) -> list[float]:
        return [value - 1 for value in values]  # it does not agree


NUMBERS = st.one_of(
    st.integers(0, 300).map(float), st.floats(), st.sampled_from([1e300, -1.0, math.nan, math.inf, 2.0**53])
)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_whatever_a_stranger_sends_it_is_no_agreement_and_no_harm(numbers: list[float]) -> None:
    """Lengths that would take the memory, bytes that are none, names that are no JSON."""
    with pytest.raises(AgreementError):
        check_agreement(StrangeGroup(itertools.cycle(numbers)), CONFIG)
