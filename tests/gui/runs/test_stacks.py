"""Stacks of all ranks, from a run's page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.histories import event
from support.values.made_runs import line
from support.values.run_homes import add_live_run, run_id
from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.examination import Examination
from torchdeck.runs.folders.rank_profiles import RankProfile
from torchdeck.use_cases.ui import Ui
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.runs import rank_reports
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.run_questions import RanksQuestion
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.theme.theme import Theme

SENTENCE = "Rank 1 is in train.py:84 save_model; rank 0 waits for it."


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return add_live_run(tmp_path, 1)


@pytest.fixture
def place(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path, layout: RunLayout
) -> Iterator[RunsPage]:
    poller = RunListPoller(tmp_path)
    made = RunsPage(theme, operations, tmp_path, poller)
    qtbot.addWidget(made)
    made.resize(1200, 700)
    made.show()
    made.entered()
    poller.start()
    made.open_run(layout.root.name)
    yield made
    made.closing()
    assert poller.stop(10)


def examined(layout: RunLayout, _origin: str, _ui: Ui) -> Examination:
    """What an agent writes."""
    folder = layout.attempt(1).examination("2")
    folder.root.mkdir(parents=True)
    for rank, number in ((0, 61), (1, 84), (2, 61)):
        frame = {"file": "/code/train.py", "line": number, "function": "step", "calls": True}
        write_json(folder.rank(rank), {"frames": [frame], "state": "S"})
    return Examination(folder, SENTENCE, "elsewhere", (0, 1, 2))


def test_a_hang_offers_the_stacks_and_the_page_shows_them(
    qtbot: QtBot, place: RunsPage, layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The button is there while ranks hang; ranks with one stack are one line, the odd one first."""
    monkeypatch.setattr(rank_reports, "ask_for_stacks", examined)
    said: list[tuple[str, str]] = []
    place.commands.reported.connect(lambda run, text: said.append((run, text)))
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word == "running")
    page = place.page
    assert page is not None
    assert not page.header.buttons[RunCommand.STACKS].isVisible()
    more = {"kind": "elsewhere", "examination": "1", "detail": SENTENCE}
    hang = event("hang", attempt=1, rank=1, phase="training", step=3, still=34.0, limit=30.0, **more)
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(hang))
    button = page.header.buttons[RunCommand.STACKS]
    qtbot.waitUntil(button.isVisible)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(said))
    shown = (
        f"{SENTENCE}\nrank 1: /code/train.py:84 step\nranks 0, 2: /code/train.py:61 step\n"
        f"All threads and collectives: {layout.attempt(1).examination('2').root}"
    )
    assert said == [(run_id(1), shown)]


def test_a_profile_is_reported_with_its_traces(
    qtbot: QtBot, place: RunsPage, layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the action, which needs no hang; a rank without a trace says why."""
    trace = layout.attempt(1).profile("1-profile-ab").trace(0)

    def profiled(
        _layout: RunLayout, ranks: Sequence[int], seconds: float, _origin: str, _ui: Ui
    ) -> tuple[RankProfile, ...]:
        assert (tuple(ranks), seconds) == ((), 5.0)
        return RankProfile(0, trace), RankProfile(1, None, "py-spy is not installed")

    monkeypatch.setattr(rank_reports, "profile_ranks", profiled)
    said: list[tuple[str, str]] = []
    place.commands.reported.connect(lambda run, text: said.append((run, text)))
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word == "running")
    place.commands.carry_out(RunCommand.PROFILE, layout)
    qtbot.waitUntil(lambda: bool(said))
    assert said[0][1].splitlines() == [
        f"Rank 0: {trace}",
        "Rank 1: py-spy is not installed",
        "Open traces in https://ui.perfetto.dev or chrome://tracing.",
    ]


def test_a_straggler_offers_them_too_and_the_ranks_may_be_chosen(
    qtbot: QtBot, place: RunsPage, layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks by the menu; a list that is none says what is expected."""
    profiled: list[tuple[int, ...]] = []

    def profile(_layout: RunLayout, ranks: Sequence[int], *_: object) -> tuple[RankProfile, ...]:
        profiled.append(tuple(ranks))
        return ()

    monkeypatch.setattr(rank_reports, "profile_ranks", profile)
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word == "running")
    page = place.page
    assert page is not None
    more = {"share": 0.4, "since": 90.0, "differs": [], "detail": "Rank 1 delays the others"}
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(event("straggler", attempt=1, ranks=[1], step=3, **more)))
    for command in (RunCommand.STACKS, RunCommand.PROFILE):
        qtbot.waitUntil(page.header.buttons[command].isVisible)
    place.actions_of_runs[RunCommand.PROFILE_RANKS].trigger()
    (question,) = place.findChildren(RanksQuestion)
    question.ranks.setText("0,x")
    assert not question.profile.isEnabled()
    assert question.problem.text() == "Expected: up to 64 ranks, such as 0,3-5."
    question.ranks.setText("1, 3-5")
    question.profile.click()
    qtbot.waitUntil(lambda: profiled == [(1, 3, 4, 5)])
