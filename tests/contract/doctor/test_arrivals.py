"""The file in which a rank reports when it reached its collectives."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.doctor.arrivals import (
    MOST_CALLS,
    GroupArrivals,
    RankArrivals,
    read_arrivals,
    write_arrivals,
)

WHOLE = st.integers(0, (1 << 52) - 1)


@st.composite
def groups(draw: st.DrawFn) -> GroupArrivals:
    count = draw(st.integers(0, 20))
    numbers = st.lists(WHOLE, min_size=count, max_size=count).map(tuple)
    empty: st.SearchStrategy[tuple[int, ...]] = st.just(())
    name = draw(st.text(max_size=50).filter(lambda text: text.isprintable()))
    return GroupArrivals(name, draw(numbers), draw(numbers), draw(numbers | empty), draw(numbers | empty))


@given(begin=WHOLE, found=st.lists(groups(), max_size=4, unique_by=lambda group: group.group).map(tuple))
def test_what_is_written_is_read(begin: int, found: tuple[GroupArrivals, ...]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "arrivals.json"
        write_arrivals(path, RankArrivals(begin, found))
        assert read_arrivals(path) == RankArrivals(begin, found)


GROUP: dict[str, Any] = {"group": "0", "sequences": [1], "times": [2], "kinds": [], "spent": []}


@pytest.mark.parametrize(
    "group",
    [
        {**GROUP, "times": [1, 2]},
        {**GROUP, "spent": [1, 2]},
        {**GROUP, "sequences": [-1]},
        {**GROUP, "times": [True]},
        {**GROUP, "times": [1 << 60]},
        {**GROUP, "times": "12"},
        {**GROUP, "group": 3},
        {**GROUP, "sequences": [1] * (MOST_CALLS + 1), "times": [1] * (MOST_CALLS + 1)},
        {"group": "0"},
        7,
    ],
)
def test_a_damaged_report_is_none(group: object, tmp_path: Path) -> None:
    """It is a rank's file: a program may write anything there."""
    path = tmp_path / "arrivals.json"
    assert read_arrivals(path) is None
    path.write_text(json.dumps({"v": 1, "begin": 5, "groups": [GROUP]}))
    assert read_arrivals(path) is not None
    path.write_text(json.dumps({"v": 1, "begin": 5, "groups": [group]}))
    assert read_arrivals(path) is None


def test_a_report_with_two_groups_of_one_name_is_none(tmp_path: Path) -> None:
    group = GroupArrivals("0", (1,), (2,), (), ())
    write_arrivals(tmp_path / "arrivals.json", RankArrivals(1, (group, group._replace(spent=(3,)))))
    assert read_arrivals(tmp_path / "arrivals.json") is None
