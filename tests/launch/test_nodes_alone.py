"""Nodes whose ranks go on after the end of their run, by values; real hosts do it in test_run_unled."""

from pathlib import Path

import pytest

from support.histories import agent_started, controller_journal, ended, event, finished, started
from support.made_runs import line, make_run
from torchdeck.launch.taking_over import nodes_alone
from torchdeck.runs.follower import read_run


@pytest.mark.parametrize(
    ("said", "alone"),
    [
        ([("lead_lost", "continue")], ("node2",)),
        ([("lead_lost", "stop")], ()),
        ([("lead_lost", "continue"), ("lead_back", "")], ()),
        ([("lead_lost", "continue"), ("node_finished", "")], ()),
        ([], ()),
    ],
)
def test_ranks_go_on_alone_until_their_node_says_otherwise(
    tmp_path: Path, said: list[tuple[str, str]], alone: tuple[str, ...]
) -> None:
    lead = [agent_started(), started(), ended(outcome="failed"), finished("FAILED")]
    layout = make_run(tmp_path, controller_journal(), lead)
    follower = event("agent_started", 100.6, identity=None, part="follower", life=1)
    told = [event(name, 104.5, unattended=what, why="over", attempt=1) for name, what in said]
    layout.node("node2").root.mkdir()
    layout.node("node2").journal.write_text("".join(map(line, [follower, *told])))
    assert read_run(layout).is_over
    assert nodes_alone(layout) == alone
