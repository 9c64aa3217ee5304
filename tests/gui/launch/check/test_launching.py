"""Launch: what was previewed is what starts, and once; the start itself is a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from torchdeck.config.loader import LoadedConfig
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching import launcher
from torchdeck.launching.launcher import LaunchError
from torchdeck.nodes.connector import Connector
from torchdeck.trust.trust_list import TrustList
from torchdeck.trust.trusted_entry import Held
from torchdeck.use_cases.check import CheckRequest
from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.launch.check import launching
from torchdeck_app.launch.check.check_rows import CheckRow
from torchdeck_app.launch.check.launching import Launching
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.preview.preview_service import PreviewService

SCRIPT = '[run]\nscript = "t.py"\n[distributed]\nnproc = 1\ndevices = "cpu"\n'
RECIPE = (
    SCRIPT.replace('script = "t.py"', 'recipe = "mine.py"')
    + '[limits]\nmemory = "off"\n[training]\nsteps = 1\n'
)


class Heard:
    """What Launching has said."""

    def __init__(self, launching: Launching) -> None:
        self.started: list[str] = []
        self.refused: list[tuple[CheckRow, ...]] = []
        self.trust: list[Held] = []
        self.agreement: list[tuple[str, ...]] = []
        launching.started.connect(self.started.append)
        launching.refused.connect(self.refused.append)
        launching.trust_wanted.connect(self.trust.append)
        launching.agreement_wanted.connect(self.agreement.append)


class Bench:
    """A document with its preview, ready to launch; `controllers` are the runs that would have begun."""

    def __init__(self, operations: Operations, folder: Path, controllers: list[RunLayout]) -> None:
        self.folder, self.home, self.controllers = folder, folder / "home", controllers
        (folder / "t.py").write_text("print(1)\n")
        self.home.mkdir(mode=0o700)
        self.document = RunDocument(folder)
        self.service = PreviewService(operations, self.home)
        self.launching = Launching(self.document, self.service, operations, self.home, lambda: "run.toml")
        self.document.checked.connect(self.service.request)
        self.document.checked.connect(lambda _: self.launching.preview_updated())
        self.service.updated.connect(lambda _: self.launching.preview_updated())
        self.heard = Heard(self.launching)

    def runs(self) -> list[Path]:
        folder = self.home / "runs"
        return list(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def bench(
    operations: Operations, tmp_path: Path, no_early_controller: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    controllers: list[RunLayout] = []
    monkeypatch.setattr(launcher, "start_controller", lambda layout, **_: controllers.append(layout))
    made = Bench(operations, tmp_path, controllers)
    yield made
    made.service.close()
    made.document.close(5.0)


def previewed(qtbot: QtBot, bench: Bench, text: str) -> LaunchPlan:
    bench.document.load(text, None)
    qtbot.waitUntil(
        lambda: (
            bench.service.state.plan is not None
            and bench.service.state.version == bench.document.version
            and not bench.service.state.stale
        ),
        timeout=60_000,
    )
    plan = bench.service.state.plan
    assert plan is not None
    return plan


def test_what_was_previewed_starts(qtbot: QtBot, bench: Bench) -> None:
    plan = previewed(qtbot, bench, SCRIPT)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    (run,) = bench.runs()
    assert run.name == bench.heard.started[0]
    assert bench.controllers[0].root.name == f".{run.name}", "it begins before the run is shown"
    assert plan.fingerprint in (run / "plan.json").read_text()
    assert (run / "run.toml").read_text() == SCRIPT
    assert not bench.launching.is_busy


def test_secrets_without_a_value_are_asked_for_once(
    qtbot: QtBot, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is entered reaches the controller, and no file; it is asked for again once it is forgotten."""
    given: list[object] = []
    monkeypatch.setattr(launcher, "start_controller", lambda _layout, secrets, **_: given.append(secrets))
    monkeypatch.setenv("SET_HERE", "x")
    previewed(qtbot, bench, SCRIPT.replace("[dist", 'secrets = ["SET_HERE", "THE_KEY"]\n[dist'))
    asked: list[MissingSecrets] = []
    bench.launching.secrets_wanted.connect(asked.append)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(asked), timeout=30_000)
    assert asked[0].names == ("THE_KEY",)
    assert bench.launching.is_busy
    bench.launching.go_on_with_secrets({"THE_KEY": "canary"}, keep=False)
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    assert given == [{"THE_KEY": "canary"}]
    for path in bench.home.rglob("*"):
        assert not path.is_file() or b"canary" not in path.read_bytes(), path
    bench.launching.launch()
    qtbot.waitUntil(lambda: len(bench.heard.started) == 2, timeout=60_000)
    assert len(asked) == 1
    with qtbot.waitSignal(bench.launching.secrets_kept_no_more, timeout=30_000):
        bench.launching.forget_secrets()
    bench.launching.launch()
    qtbot.waitUntil(lambda: len(asked) == 2, timeout=30_000)
    bench.launching.cancel()


def test_a_declined_secret_starts_nothing(qtbot: QtBot, bench: Bench) -> None:
    previewed(qtbot, bench, SCRIPT.replace("[dist", 'secrets = ["THE_KEY"]\n[dist'))
    with qtbot.waitSignal(bench.launching.secrets_wanted, timeout=30_000):
        bench.launching.launch()
    bench.launching.cancel()
    assert not bench.launching.is_busy
    assert bench.runs() == []


def test_two_presses_start_one_run(qtbot: QtBot, bench: Bench) -> None:
    previewed(qtbot, bench, SCRIPT)
    bench.launching.launch()
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    qtbot.waitUntil(lambda: not bench.launching.is_busy, timeout=5000)
    assert len(bench.runs()) == len(bench.controllers) == 1


def test_the_newest_edit_is_waited_for(qtbot: QtBot, bench: Bench) -> None:
    """Pressed right after an edit, what starts has it."""
    previewed(qtbot, bench, SCRIPT)
    bench.document.set_text(SCRIPT.replace("nproc = 1", "nproc = 3"))
    with qtbot.waitSignal(bench.launching.progressed) as said:
        bench.launching.launch()
    assert "last edit" in said.args[0]
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    (run,) = bench.runs()
    assert "nproc = 3" in (run / "run.toml").read_text()
    assert '"world_size": 3' in (run / "plan.json").read_text()


def test_a_change_since_the_preview_is_asked_about_once(qtbot: QtBot, bench: Bench) -> None:
    previewed(qtbot, bench, SCRIPT)
    (bench.folder / "t.py").write_text("print('another')\n")
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.agreement), timeout=60_000)
    assert bench.heard.agreement == [("t.py was changed",)]
    assert not bench.runs()
    bench.launching.go_on_agreeing()
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    assert len(bench.runs()) == 1


def test_who_does_not_agree_starts_nothing(qtbot: QtBot, bench: Bench) -> None:
    previewed(qtbot, bench, SCRIPT)
    (bench.folder / "t.py").write_text("print('another')\n")
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.agreement), timeout=60_000)
    bench.launching.cancel()
    assert not bench.launching.is_busy
    bench.launching.go_on_agreeing()
    assert not bench.launching.is_busy
    assert not bench.runs()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SCRIPT.replace("nproc = 1", "nproc = 0"), "distributed.nproc"),
        ("[run\n", "run file"),
        (SCRIPT.replace("t.py", "none.py"), "script"),
    ],
)
def test_what_is_in_the_way_is_said(qtbot: QtBot, bench: Bench, text: str, name: str) -> None:
    bench.document.load(text, None)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.refused), timeout=60_000)
    (row,) = (row for row in bench.heard.refused[0] if row.status == "failed")
    assert row.name == name
    assert row.fix
    assert not bench.runs()
    assert not bench.launching.is_busy


def test_code_is_trusted_before_it_starts(qtbot: QtBot, bench: Bench) -> None:
    (bench.folder / "mine.py").write_text("def build_model(options): ...\n")
    bench.document.load(RECIPE, None)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.trust), timeout=60_000)
    assert [held.folder for held in bench.heard.trust] == [bench.folder]
    assert not bench.runs()
    bench.launching.go_on_trusting(bench.folder)
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    assert TrustList(bench.home).standing(bench.folder).trusted
    assert len(bench.runs()) == 1


def test_code_that_others_can_write_is_refused_and_not_asked_about(qtbot: QtBot, bench: Bench) -> None:
    code = bench.folder / "mine.py"
    code.write_text("def build_model(options): ...\n")
    code.chmod(0o666)
    TrustList(bench.home).add(bench.folder)
    bench.document.load(RECIPE, None)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.refused), timeout=60_000)
    (row,) = bench.heard.refused[0]
    assert row.remedy is None
    assert f"cannot be trusted: everyone can write {code}" in row.what
    assert row.fix == f"`chmod o-w {code}`"
    assert bench.heard.trust == []
    assert not bench.runs()


def test_trust_that_cannot_be_kept_is_said(qtbot: QtBot, bench: Bench) -> None:
    (bench.folder / "mine.py").write_text("def build_model(options): ...\n")
    bench.document.load(RECIPE, None)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.trust), timeout=60_000)
    bench.home.rmdir()
    bench.launching.go_on_trusting(bench.folder)
    qtbot.waitUntil(lambda: bool(bench.heard.refused), timeout=60_000)
    assert len(bench.heard.trust) == 1, "it is asked once"
    assert "writable" in bench.heard.refused[0][0].fix
    assert not bench.runs()


def test_a_start_that_fails_is_said_in_whole_sentences(
    qtbot: QtBot, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_layout: RunLayout, **_logins: object) -> None:
        raise LaunchError("the controller cannot be started: no memory", "12: 34", "free some")

    monkeypatch.setattr(launcher, "start_controller", broken)
    previewed(qtbot, bench, SCRIPT)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.refused), timeout=60_000)
    row = bench.heard.refused[0][0]
    assert (row.what, row.fix) == ("the controller cannot be started: no memory (12: 34)", "free some")
    assert not bench.launching.is_busy


def test_cancelling_too_late_tells_of_the_run(
    qtbot: QtBot, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is there: whoever cancelled must see it."""

    def cancelled_meanwhile(_layout: RunLayout, **_logins: object) -> None:
        operation = bench.launching._operation
        assert operation is not None
        operation.token.cancel()

    monkeypatch.setattr(launcher, "start_controller", cancelled_meanwhile)
    previewed(qtbot, bench, SCRIPT)
    bench.launching.launch()
    qtbot.waitUntil(lambda: bool(bench.heard.started), timeout=60_000)
    assert len(bench.runs()) == 1


def test_all_checks_are_listed(bench: Bench, qtbot: QtBot) -> None:
    previewed(qtbot, bench, SCRIPT)
    loaded: LoadedConfig | None = bench.service.state.loaded
    assert loaded is not None
    said: list[str] = []
    progress: Callable[[str], None] = said.append
    ui = WorkerUi(Connector(bench.home), progress, Cancel())
    rows = launching.check_everything(CheckRequest(loaded, home=bench.home), bench.folder, ui)
    assert {row.status for row in rows} <= {"ok", "warning"}
    assert {"script", "devices", "working dir"} <= {row.name for row in rows}
