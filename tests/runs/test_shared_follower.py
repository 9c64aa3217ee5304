"""One run followed for several."""

import threading
from pathlib import Path

import pytest

from support.values.histories import agent_started, controller_journal, ended, finished, started
from support.values.made_runs import IDS, line, make_run
from support.values.metrics import write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import AS_GOOD, RunFollower, SharedFollower, SharedFollowers
from torchdeck.runs.run_list import RunList
from torchdeck.runs.state import RunState
from torchdeck.runs.view import RunView


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    made = make_run(tmp_path, controller_journal(), [agent_started(), started()])
    write_rows(made.root, [(step, {"loss": 3.0 - step}) for step in range(3)])
    return made


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> list[RunLayout]:
    """Runs whose files were read, one for each time."""
    found: list[RunLayout] = []
    original = RunFollower.refresh

    def counted(self: RunFollower) -> RunView:
        found.append(self.layout)
        return original(self)

    monkeypatch.setattr(RunFollower, "refresh", counted)
    return found


def test_two_that_ask_at_about_the_same_time_share_a_look(
    layout: RunLayout, refreshes: list[RunLayout]
) -> None:
    now = [10.0]
    follower = SharedFollower(layout, monotonic=lambda: now[0])
    first = follower.look()
    now[0] += AS_GOOD / 2
    assert follower.look() is first
    assert first.progress is not None
    assert first.progress.step == 2
    with next(layout.nodes.glob("*/journal.jsonl")).open("a") as file:
        file.write("".join(line(each) for each in (ended(), finished())))
    now[0] += AS_GOOD
    assert follower.look().view.state is RunState.SUCCEEDED
    assert len(refreshes) == 2


def test_who_asks_while_a_look_goes_on_gets_that_one(
    layout: RunLayout, refreshes: list[RunLayout], monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, asked = threading.Event(), threading.Event()
    original = RunFollower.refresh

    def slow(self: RunFollower) -> RunView:
        goes_on.set()
        assert asked.wait(20)
        return original(self)

    def monotonic() -> float:
        """No time goes by; the second one asks for it first of all."""
        if threading.current_thread() is threads[1]:
            asked.set()
        return 10.0

    monkeypatch.setattr(RunFollower, "refresh", slow)
    follower, found = SharedFollower(layout, monotonic=monotonic), list[object]()
    threads = [threading.Thread(target=lambda: found.append(follower.look())) for _ in range(2)]
    threads[0].start()
    assert goes_on.wait(20)
    threads[1].start()
    for thread in threads:
        thread.join(20)
    assert found[0] is found[1]
    assert len(refreshes) == 1


def test_a_look_that_fails_is_not_kept(layout: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = SharedFollower(layout)

    def fails(_self: RunFollower) -> RunView:
        raise OSError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(RunFollower, "refresh", fails)
        with pytest.raises(OSError, match="gone"):
            follower.look()
    assert follower.look().view.id == IDS[0]


def test_the_list_and_a_page_read_a_run_once(
    layout: RunLayout, tmp_path: Path, refreshes: list[RunLayout]
) -> None:
    runs = RunList(tmp_path, monotonic=lambda: 1.0)
    page = runs.followers.of(layout)
    entry = runs.look().entries[0]
    assert page.look().view is entry.view
    assert [each.root for each in refreshes] == [layout.root]


def test_a_run_that_nobody_follows_is_forgotten(layout: RunLayout) -> None:
    followers = SharedFollowers()
    kept = followers.of(layout)
    assert followers.of(RunLayout(layout.root)) is kept
    del kept
    assert not followers._kept
