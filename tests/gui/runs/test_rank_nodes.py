"""Ranks are called by their node too, where a run has several."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.rank_nodes import RankNodes, nodes_of, rank_words
from torchdeck.runs.plots.stragglers import Straggler, sentence
from torchdeck_app.runs.logs.log_bar import LogBar
from torchdeck_app.runs.logs.log_reader import LogReader
from torchdeck_app.runs.logs.messages import Choice, LogPage, Search
from torchdeck_app.theme.theme import Theme


def plan(*nodes: tuple[str, int]) -> dict[str, object]:
    return {"nodes": [{"name": name, "nproc": nproc} for name, nproc in nodes]}


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_ranks_are_counted_from_node_to_node(counts: list[int]) -> None:
    found = nodes_of(plan(*((f"n{at}", count) for at, count in enumerate(counts))))
    assert len(found) == sum(counts)
    assert [list(found.values()).count(f"n{at}") for at in range(len(counts))] == counts
    assert list(found.values()) == sorted(found.values())


def test_one_node_needs_no_name_and_nonsense_has_none() -> None:
    assert nodes_of(plan(("localhost", 8))) == {}
    nonsense: tuple[object, ...] = (None, [], {"nodes": 3}, {"nodes": [{"name": "a"}, 3]})
    for wrong in nonsense:
        assert nodes_of(wrong) == {}
    assert rank_words(3, {}) == "rank 3"
    assert rank_words(3, {3: "GPU-b"}) == "rank 3 on GPU-b"


def test_the_newest_attempts_plan_counts(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    nodes = RankNodes(layout)
    assert nodes.now() == {}
    layout.plan.write_text(json.dumps(plan(("a", 1), ("b", 1))))
    assert nodes.now() == {0: "a", 1: "b"}
    attempt = layout.attempt(2)
    attempt.root.mkdir(parents=True)
    attempt.plan.write_text(json.dumps(plan(("b", 1), ("c", 1))))
    assert nodes.now() == {0: "b", 1: "c"}


def test_logs_name_the_node_of_a_rank(theme: Theme, qtbot: QtBot) -> None:
    bar = LogBar(theme)
    qtbot.addWidget(bar)
    page = LogPage(Choice(), Search(), 0, (), 0, (0, 1), (1,), nodes={0: "a", 1: "GPU-b"})
    bar.show_page(page)
    assert [bar.rank.itemText(at) for at in range(3)] == ["All ranks", "Rank 0 on a", "Rank 1 on GPU-b"]
    bar.rank.setCurrentIndex(2)
    assert bar.choice.rank == 1


def test_logs_are_chosen_by_node_too(theme: Theme, qtbot: QtBot) -> None:
    """Nodes stand before the ranks; what is chosen stays so when ranks come."""
    bar = LogBar(theme)
    qtbot.addWidget(bar)
    nodes = {0: "a", 1: "b", 2: "b"}
    page = LogPage(Choice(), Search(), 0, (), 0, (0,), (1,), nodes=nodes, node_names=("a", "b"))
    bar.show_page(page)
    bar.rank.setCurrentIndex(bar.rank.findData("b"))
    bar.show_page(replace(page, ranks=(1, 2)))
    assert [bar.rank.itemText(at) for at in range(bar.rank.count())] == [
        "All ranks",
        "Node a",
        "Node b",
        "Rank 0 on a",
        "Rank 1 on b",
        "Rank 2 on b",
    ]
    assert bar.choice == Choice(node="b")
    bar.rank.setCurrentIndex(bar.rank.findData(2))
    assert bar.choice == Choice(rank=2)


def test_lines_of_a_node_follow_its_ranks_from_attempt_to_attempt(tmp_path: Path) -> None:
    """Where a node was given up, the other's rank has another number."""
    layout = RunLayout(tmp_path)
    layout.plan.write_text(json.dumps(plan(("a", 1), ("b", 1))))
    for number, nodes in ((1, (("a", 1), ("b", 1))), (2, (("b", 1),))):
        attempt = layout.attempt(number)
        for rank, (name, _) in enumerate(nodes):
            attempt.rank(rank).stdout.parent.mkdir(parents=True)
            attempt.rank(rank).stdout.write_text(f"{name} in attempt {number}\n")
        attempt.plan.write_text(json.dumps(plan(*nodes)))
    reader = LogReader(layout)

    def lines(choice: Choice) -> set[str]:
        (found,) = (each for each in reader.look([(LogReader.choose, choice)]) if isinstance(each, LogPage))
        assert found.node_names == ("a", "b")
        return {line.text for line in found.lines}

    assert lines(Choice(node="b")) == {"b in attempt 1", "b in attempt 2"}
    assert lines(Choice(node="a")) == {"a in attempt 1"}
    assert lines(Choice(node="b", attempt=2)) == {"b in attempt 2"}
    assert len(lines(Choice())) == 3


def test_who_lags_behind_is_said_with_its_node() -> None:
    slow = Straggler(1, 2, 9, 1.8, goes_on=True)
    text = sentence([slow], [0, 1], np.arange(10.0), "step", {0: "a", 1: "GPU-b"})
    assert text.startswith("Rank 1 on GPU-b is 1.8 × the median since step 2")
