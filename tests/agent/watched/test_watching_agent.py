"""The agent of a watched training, in this process: silence, and a folder that nobody continues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.values.histories import fold
from torchdeck.agent.gang.recovered_state import RecoveredState, replay
from torchdeck.agent.watched import watching_agent
from torchdeck.agent.watched.watching_agent import WatchingAgent
from torchdeck.contract.journal import Event, PatientJournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.launcher import LaunchRecord, create_run
from torchdeck.launching.requests import STACKS, STOP
from torchdeck.quantities import moment
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import Liveness, NodeLiveness
from torchdeck.use_cases.elsewhere import watch

BEGAN = 1.7e9


def plan_of_folder(place: Path) -> LaunchPlan:
    """The plan that watches a folder."""
    return watch._plan(watch._of_folder(str(place)), "work")


def watched(
    plan: LaunchPlan, home: Path, recovered: RecoveredState | None = None, request: str = ""
) -> RunLayout:
    """Run the agent to its end, with a request of this kind in its inbox."""
    layout = create_run(plan, LaunchRecord(""), home)
    node = layout.node("localhost")
    node.inbox.mkdir(parents=True)
    if request:
        (node.inbox / f"1-{request}-ab.json").touch()  # as on a full disk
    with PatientJournalWriter(node.journal) as journal:
        WatchingAgent(layout, plan, "localhost", journal).run(recovered or RecoveredState())
    return layout


def test_a_folder_that_stopped_growing_is_shown_with_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the past have their past time; after a day without news the watch ends."""
    table = tmp_path / "work/metrics.csv"
    table.parent.mkdir()
    table.write_text("step,loss\n" + "".join(f"{step},{1 / step}\n" for step in range(1, 31)))
    os.utime(table, (BEGAN, BEGAN))
    monkeypatch.setattr(watching_agent, "FORGOTTEN_AFTER", 2.0)
    layout = watched(plan_of_folder(table.parent), tmp_path / "home")
    events = {event.name: event for event in read_journal(layout.node("localhost").journal)}
    assert events["quiet"].fields["since"] == pytest.approx(BEGAN, abs=1)
    view = read_run(layout)
    assert (view.state.value, view.why) == ("SUCCEEDED", "nothing was written for a day")
    assert view.started == pytest.approx(BEGAN, abs=1)
    before = [event for event in read_journal(layout.node("localhost").journal) if event.name != "finished"]
    alive = Liveness(nodes={"localhost": NodeLiveness(agent=True)})
    watching = fold("id", read_journal(layout.journal), {"localhost": before}, {}, alive, BEGAN + 100)
    assert watching.warnings == (f"nothing was written since {moment(events['quiet'].fields['since'])}",)


@pytest.mark.parametrize(("request_kind", "state"), [(STACKS, "SUCCEEDED"), (STOP, "CANCELLED")])
def test_only_a_stop_ends_the_watch(
    request_kind: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(watching_agent, "FORGOTTEN_AFTER", 0.0)
    layout = watched(plan_of_folder(folder), tmp_path / "home", request=request_kind)
    assert read_run(layout).state.value == state


def test_an_agent_that_takes_over_journals_the_end_of_the_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = replay([Event("quiet", BEGAN, 0.0, {"since": BEGAN})], 0)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr(watching_agent, "FORGOTTEN_AFTER", 0.0)
    layout = watched(plan_of_folder(folder), tmp_path / "home", silent)
    assert "quiet_over" in {event.name for event in read_journal(layout.node("localhost").journal)}


def test_a_folder_that_is_not_there_ends_the_watch(tmp_path: Path) -> None:
    """As on a node, where nothing could look before."""
    folder = tmp_path / "work"
    folder.mkdir()
    plan = plan_of_folder(folder)
    folder.rmdir()
    view = read_run(watched(plan, tmp_path / "home"))
    assert (view.state.value, view.why) == ("FAILED", f"there is no folder {folder} on localhost")
