"""The preview follows what is edited: the newest wins, models are traced meanwhile, nothing blocks."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from support.training.held import held_in
from support.values.previews import machines, preview
from support.values.run_files import write
from torchdeck.config.loader import LoadedConfig, load_config
from torchdeck.config.problems import Problem
from torchdeck.plan.known import Known
from torchdeck.use_cases.previewer import Previewed, Previewer
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview import preview_service as free_watch
from torchdeck_app.launch.preview.preview_service import PreviewService
from torchdeck_app.launch.preview.preview_state import PreviewState

NOTHING = machines(1, 2)
PROBLEM = Problem("training.lr", "run.toml", 3, "it is negative", "a number above 0")


@dataclass(frozen=True)
class Checked:
    """As the document's checker makes them."""

    version: int
    loaded: LoadedConfig | None
    problems: tuple[Problem, ...] = ()


class FakePreviewer(Previewer):
    """Previews what it is told to; each call waits until it is let go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answers: dict[str, Previewed] = {}
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.traced: list[str] = []
        self.given_up: list[str] = []
        self.trusted: list[Path] = []
        self.go = threading.Semaphore(1000)
        self.trace_goes = threading.Event()
        self.on_trace: Callable[[str], None] = lambda _name: None

    def preview(self, loaded: LoadedConfig, check: Callable[[], None] = lambda: None) -> Previewed:
        name = loaded.config.name
        self.asked.append(name)
        assert self.go.acquire(timeout=20)
        check()
        if self.error is not None:
            raise self.error
        return self.answers.get(name) or Previewed(preview(1, 1), NOTHING)

    def trace(self, loaded: LoadedConfig, on_progress: Callable[[str], None]) -> None:
        self.traced.append(loaded.config.name)
        while not self.trace_goes.wait(0.01):
            on_progress("building the model")
        self.on_trace(loaded.config.name)

    def give_up(self, key: str) -> None:
        self.given_up.append(key)

    def trust(self, folder: Path) -> None:
        self.trusted.append(folder)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakePreviewer]:
    made = FakePreviewer(tmp_path)
    yield made
    made.trace_goes.set()
    made.go.release(100)


@pytest.fixture
def service(operations: Operations, tmp_path: Path, fake: FakePreviewer) -> Iterator[PreviewService]:
    made = PreviewService(operations, tmp_path, previewer=fake)
    yield made
    made.close()


def checked(folder: Path, version: int, name: str = "") -> Checked:
    """A right run file."""
    name = name or f"v{version}"
    text = f'name = "{name}"\n[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 10\n'
    return Checked(version, load_config(write(folder, text, f"{name}.toml")))


def wait(qtbot: QtBot, service: PreviewService, holds: Callable[[PreviewState], Any]) -> PreviewState:
    qtbot.waitUntil(lambda: bool(holds(service.state)), timeout=20_000)
    return service.state


def test_a_preview_with_its_plan(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    asked = checked(tmp_path, 3)
    with qtbot.waitSignal(
        service.updated, timeout=20_000, check_params_cb=lambda state: state.version == 3
    ) as told:
        service.request(asked)
        assert service.state.version == -1, "the GUI thread did the work"
    (state,) = told.args
    assert state.version == 3
    assert state.loaded is asked.loaded
    assert state.plan is state.preview.plan
    assert not state.stale


def test_only_the_newest_of_those_that_wait_is_previewed(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.go = threading.Semaphore(0)
    for version in (1, 2, 3, 4):
        service.request(checked(tmp_path, version))
    qtbot.waitUntil(lambda: fake.asked == ["v1"], timeout=20_000)
    fake.go.release(10)
    state = wait(qtbot, service, lambda state: state.version == 4)
    assert fake.asked == ["v1", "v4"]
    assert state.loaded is not None
    assert state.loaded.config.name == "v4"


def test_the_last_good_preview_stays_while_there_are_problems(
    qtbot: QtBot, service: PreviewService, tmp_path: Path
) -> None:
    service.request(checked(tmp_path, 1))
    good = wait(qtbot, service, lambda state: state.version == 1)
    service.request(Checked(2, None, (PROBLEM,)))
    assert service.state == dataclasses.replace(good, stale=True, problems=(PROBLEM,), version=2)
    service.request(checked(tmp_path, 3))
    assert not wait(qtbot, service, lambda state: state.version == 3).stale


def test_problems_of_the_plan_are_told_beside_the_last_preview(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.answers["v2"] = Previewed(None, NOTHING, (PROBLEM,))
    service.request(checked(tmp_path, 1))
    first = wait(qtbot, service, lambda state: state.version == 1)
    service.request(checked(tmp_path, 2))
    state = wait(qtbot, service, lambda state: state.version == 2)
    assert (state.problems, state.stale, state.preview) == ((PROBLEM,), True, first.preview)


def test_a_failure_is_told_and_can_be_tried_again(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.error = OSError("the drive is gone")
    service.request(checked(tmp_path, 1))
    state = wait(qtbot, service, lambda state: state.version == 1)
    assert str(state.error) == "the drive is gone"
    fake.error = None
    service.refresh()
    assert wait(qtbot, service, lambda state: state.preview is not None).error is None


def test_there_is_a_preview_before_the_model_is_traced_and_one_after(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.answers["v1"] = Previewed(preview(1, 1, known=Known()), NOTHING, untraced="key")
    fake.on_trace = lambda name: fake.answers.__setitem__(name, Previewed(preview(1, 2), NOTHING))
    service.request(checked(tmp_path, 1))
    state = wait(qtbot, service, lambda state: "building the model" in state.tracing)
    assert state.preview is not None
    assert state.plan is not None
    assert state.plan.world_size == 1
    fake.trace_goes.set()
    state = wait(qtbot, service, lambda state: state.plan and state.plan.world_size == 2)
    assert (state.tracing, fake.traced) == ("", ["v1"])


def test_an_edit_that_needs_another_trace_ends_the_old_one(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    for name, key in (("v1", "one"), ("v2", "one"), ("v3", "two")):
        fake.answers[name] = Previewed(preview(1, 1), NOTHING, untraced=key)
    service.request(checked(tmp_path, 1))
    wait(qtbot, service, lambda state: "building" in state.tracing)
    service.request(checked(tmp_path, 2))
    wait(qtbot, service, lambda state: state.version == 2)
    assert fake.traced == ["v1"], "the same model is traced on"
    service.request(checked(tmp_path, 3))
    wait(qtbot, service, lambda _: fake.traced == ["v1", "v3"])
    service.request(checked(tmp_path, 4))
    wait(qtbot, service, lambda state: state.version == 4 and state.tracing == "")


def test_a_model_is_traced_on_while_the_file_is_wrong(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.answers["v1"] = Previewed(preview(1, 1, known=Known()), NOTHING, untraced="key")
    service.request(checked(tmp_path, 1))
    wait(qtbot, service, lambda state: "building" in state.tracing)
    service.request(Checked(2, None, (PROBLEM,)))
    fake.trace_goes.set()
    state = wait(qtbot, service, lambda state: state.tracing == "")
    assert (state.version, state.problems) == (2, (PROBLEM,))
    service.request(checked(tmp_path, 3))
    wait(qtbot, service, lambda state: state.version == 3)
    assert fake.traced == ["v1"]


def test_what_was_planned_before_a_mistake_says_nothing_of_it(
    qtbot: QtBot, service: PreviewService, operations: Operations, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.go, fake.error = threading.Semaphore(0), OSError("the drive is gone")
    service.request(checked(tmp_path, 1))
    wait(qtbot, service, lambda state: state.waiting)
    service.request(Checked(2, None, (PROBLEM,)))
    fake.go.release(10)
    qtbot.waitUntil(lambda: not operations.running, timeout=20_000)
    state = service.state
    assert (state.version, state.problems, state.error, state.waiting) == (2, (PROBLEM,), None, "")


def test_memory_that_others_take_or_free_is_followed(
    qtbot: QtBot,
    service: PreviewService,
    fake: FakePreviewer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(free_watch, "has_moved", lambda seen: seen is NOTHING and len(fake.asked) < 3)
    timer = service.free.findChild(QTimer)
    assert isinstance(timer, QTimer)
    timer.setInterval(10)
    service.request(checked(tmp_path, 1))
    wait(qtbot, service, lambda state: state.version == 1)
    assert fake.asked == ["v1"]
    service.watch(watching=True)
    # what moves while it is planned is planned once more
    qtbot.waitUntil(lambda: len(fake.asked) >= 3, timeout=20_000)
    service.watch(watching=False)


def test_tracing_can_be_cancelled(
    qtbot: QtBot, service: PreviewService, operations: Operations, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.answers["v1"] = Previewed(preview(1, 1), NOTHING, untraced="key")
    service.request(checked(tmp_path, 1))
    wait(qtbot, service, lambda state: "building" in state.tracing)
    fake.answers["v1"] = Previewed(preview(1, 1), NOTHING, given_up=True)
    service.cancel_tracing()
    assert wait(qtbot, service, lambda state: state.cancelled).tracing == ""
    assert fake.given_up == ["key"]
    qtbot.waitUntil(lambda: not operations.running, timeout=20_000)
    assert fake.traced == ["v1"]


def test_trust_is_asked_for_and_given(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.answers["v1"] = Previewed(preview(1, 1), NOTHING, held=held_in(tmp_path))
    service.request(checked(tmp_path, 1))
    assert wait(qtbot, service, lambda state: state.version == 1).held == held_in(tmp_path)
    fake.answers["v1"] = Previewed(preview(1, 1), NOTHING)
    service.trust(tmp_path)
    wait(qtbot, service, lambda state: state.held is None)
    assert fake.trusted == [tmp_path]


def test_a_script_is_previewed_by_the_engine_itself(
    qtbot: QtBot, operations: Operations, tmp_path: Path
) -> None:
    write(tmp_path, "print(1)\n", "train.py")
    path = write(tmp_path, '[run]\nscript = "train.py"\n[distributed]\ndevices = "cpu"\nnproc = 3\n')
    service = PreviewService(operations, tmp_path / "home")
    service.request(Checked(1, load_config(path)))
    state = wait(qtbot, service, lambda state: state.version == 1)
    assert state.plan is not None
    assert state.plan.world_size == 3
    assert (state.problems, state.error, state.held, state.tracing) == ((), None, None, "")
    assert state.board is not None
    assert [(node.name, node.ranks) for node in state.board.nodes] == [("localhost", 3)]


def test_another_document_never_has_the_last_ones_preview(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    """It stays while the next is made, and goes where there is none: its tracing ends at once."""
    fake.answers["v1"] = Previewed(preview(1, 2), NOTHING, untraced="key")
    service.request(checked(tmp_path, 1))
    first = wait(qtbot, service, lambda state: state.preview and state.tracing).preview
    service.reset()
    assert service.state.preview is first
    assert service.state.tracing == ""
    service.request(Checked(2, None, (PROBLEM,)))
    assert (service.state.preview, service.state.plan, service.state.stale) == (None, None, False)
    assert service.state.problems == (PROBLEM,)


def test_what_was_planned_of_the_last_document_comes_too_late(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    fake.go = threading.Semaphore(0)
    shown: list[int] = []
    service.updated.connect(lambda state: shown.append(state.version))
    service.request(checked(tmp_path, 1))
    qtbot.waitUntil(lambda: fake.asked == ["v1"], timeout=20_000)
    service.reset()
    service.request(checked(tmp_path, 2))
    fake.go.release(10)
    wait(qtbot, service, lambda state: state.version == 2)
    assert 1 not in shown
    assert fake.asked == ["v1", "v2"]


def test_the_last_documents_preview_goes_where_the_next_takes_long(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    service.request(checked(tmp_path, 1))
    wait(qtbot, service, lambda state: state.preview)
    fake.go = threading.Semaphore(0)
    service.reset()
    service.request(checked(tmp_path, 2))
    waiting = wait(qtbot, service, lambda state: state.waiting)
    assert waiting.preview is None
    fake.go.release(10)
    assert wait(qtbot, service, lambda state: state.version == 2).preview is not None


def is_of(version: int, state: PreviewState) -> bool:
    return state.version == version


def test_ranks_that_stay_as_they_are_stay_the_same_board(
    qtbot: QtBot, service: PreviewService, fake: FakePreviewer, tmp_path: Path
) -> None:
    """So that nothing of a thousand ranks is painted again at an edit that moves none of them."""
    fake.answers = {
        "v1": Previewed(preview(2, 2), machines(2, 2)),
        "v2": Previewed(preview(2, 2, training={"steps": 7, "lr": 0.5}), machines(2, 2)),
        "v3": Previewed(preview(1, 2), machines(2, 2)),
    }
    boards, previews = [], []
    for number in (1, 2, 3):
        service.request(checked(tmp_path, number))
        state = wait(qtbot, service, partial(is_of, number))
        boards.append(state.board)
        previews.append(state.preview)
    assert boards[0] is boards[1]
    assert previews[0] is not previews[1]
    assert boards[2] != boards[1]
