"""Watching a run whose controller was just started, before anything of it can be seen here."""

import os
import signal
import sys
from pathlib import Path

import pytest

from support.values.histories import created, event, finished, running_run
from support.values.made_runs import line, make_run
from torchdeck.agent.processes.detached_process import start_detached
from torchdeck.cli.runs.display import PlainDisplay
from torchdeck.cli.runs.watch import Watch
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import WATCHED

pytestmark = pytest.mark.processes

BRINGS_THE_END = """
import sys, time
time.sleep(0.5)
with open(sys.argv[1], "a") as journal:
    journal.write(sys.argv[2])
time.sleep(20)
"""

INTERRUPTS = """
import os, pathlib, signal, sys, time
journal, end, control, number, ends_by = sys.argv[1:]
os.kill(os.getppid(), int(number))
limit = time.monotonic() + 60
while ends_by == "request" and time.monotonic() < limit and not list(pathlib.Path(control).glob("*.json")):
    time.sleep(0.02)
if ends_by == "request":
    with open(journal, "a") as file:
        file.write(end)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """As attaching from another machine makes it: in mid-training by what nodes wrote, nothing alive here."""
    return make_run(tmp_path, [created()], running_run())


def test_a_run_is_not_called_lost_while_its_controller_begins(
    run: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = run.node("localhost").journal
    argv = [sys.executable, "-c", BRINGS_THE_END, str(journal), line(finished())]
    controller = start_detached(argv, {**os.environ}, tmp_path / "log")
    try:
        code = Watch(run, PlainDisplay(), FrontEndSignals(), controller).run()
    finally:
        os.kill(controller.pid, 9)
        assert controller.wait(20)
    assert code == 0
    assert "LOST" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "attached", "ends_by", "code", "said"),
    [
        (signal.SIGINT, False, "request", 0, "the ranks finish the step, save and exit (Ctrl-C again"),
        (signal.SIGTERM, False, "nothing", 128 + signal.SIGTERM, "the run continues: torchdeck runs attach"),
        (signal.SIGQUIT, True, "request", 0, "the ranks finish the step, save and exit (Ctrl-\\ again"),
        (signal.SIGINT, True, "nothing", 128 + signal.SIGINT, "the run continues: torchdeck runs attach"),
    ],
)
def test_a_signal_is_answered_while_the_controller_begins(
    run: RunLayout,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    ends_by: str,
    code: int,
    said: str,
    *,
    attached: bool,
) -> None:
    """Nothing of the run can be seen until then, and it is not called lost for it.

    Ctrl-C stops a run that was started here, and leaves one that was attached to.
    """
    journal = run.node("localhost").journal
    told = (str(journal), line(finished()), str(run.control), str(int(number)), ends_by)
    with FrontEndSignals(attached=attached) as signals:
        controller = start_detached(
            [sys.executable, "-c", INTERRUPTS, *told], {**os.environ}, tmp_path / "log"
        )
        try:
            assert Watch(run, PlainDisplay(), signals, controller).run() == code
        finally:
            os.kill(controller.pid, 9)
            assert controller.wait(20)
    printed = capsys.readouterr().out
    assert said in printed
    assert "LOST" not in printed


def test_a_watch_of_another_training_that_is_left_says_how_to_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM ends the terminal alone: the watch continues, whatever the training does."""
    first = created()
    kind = event("created", first.time, **{**first.fields, "kind": WATCHED})
    run = make_run(tmp_path, [kind], running_run())
    with FrontEndSignals() as signals:
        argv = [
            sys.executable,
            "-c",
            INTERRUPTS,
            "",
            "",
            str(run.control),
            str(int(signal.SIGTERM)),
            "nothing",
        ]
        controller = start_detached(argv, {**os.environ}, tmp_path / "log")
        try:
            assert Watch(run, PlainDisplay(), signals, controller).run() == 128 + signal.SIGTERM
        finally:
            os.kill(controller.pid, 9)
            assert controller.wait(20)
    printed = capsys.readouterr().out
    assert f"the watch continues: `torchdeck runs attach {run.root.name}` shows it" in printed
    assert f"`torchdeck watch --end {run.root.name}` ends it" in printed


def test_one_without_a_controller_is_lost_at_once(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    assert Watch(run, PlainDisplay(), FrontEndSignals()).run() == 1
    assert "LOST" in capsys.readouterr().out
