"""`torchdeck watch`: shows a training that Torchdeck did not start."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import report
from torchdeck.cli.runs.watch import Watch, display_for
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.run_state import RunState

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.cli.runs.display import Display
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.view import RunView

_COMMAND = "torchdeck watch"
EMPTY_AFTER = 5.0
"""Seconds after which a folder in which nothing of a training was found is named."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "watch",
        help="show a training that Torchdeck did not start",
        description="Show a training that Torchdeck did not start: its metrics, checkpoints and log, here\n"
        "and in the window. Nothing is written to its folder, and the training is not controlled. The watch\n"
        "ends with the process, by Ctrl-C, or by `torchdeck watch --end ID`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "place",
        metavar="DIR",
        nargs="?",
        default="",
        help="its folder, or NODE:DIR on a node of the inventory",
    )
    parser.add_argument("--pid", type=int, metavar="P", help="its process, with all that it starts")
    parser.add_argument("--name", default="", help="name of the run (default: that of the folder or program)")
    parser.add_argument("--gui", action="store_true", help="show it in the window")
    parser.add_argument("--detach", action="store_true", help="print the run's id and return")
    parser.add_argument("--end", metavar="ID", help="end a watch; the training is left alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Watch until the training, or the watch, is over."""
    from torchdeck.use_cases.elsewhere.watch import watch_training

    signals = FrontEndSignals()
    try:
        if args.end is not None:
            return _end(args.end)
        if args.gui:
            _check_window()
        watched = watch_training(args.place, args.pid, TerminalUi(), name=args.name)
    except Refusal as error:
        return report(error, as_json=args.json, command=_COMMAND)
    layout = watched.layout
    if args.gui:
        return _show(layout.root.name)
    if args.detach:
        print(
            json_text({"id": layout.root.name, "directory": str(layout.root)})
            if args.json
            else layout.root.name
        )
        return SUCCEEDED
    with signals:
        display = display_for(layout.root.name, as_json=args.json, attached=False)
        return TrainingWatch(layout, display, signals, watched.controller, args.place).run()


def _check_window() -> None:
    """Raise Refusal if the app is not installed."""
    from torchdeck.cli.main import windows

    if not list(windows()):
        raise Refusal("there is no window (the app is not installed)", fix="watch without --gui")


def _show(run_id: str) -> int:
    """Open the window with a run; the watch continues when it is closed."""
    from torchdeck.cli.main import windows

    for entry in windows():
        code: int = entry.load()(["--run", run_id])
        return code
    return SUCCEEDED


def _end(asked: str) -> int:
    from torchdeck.cli.runs.chosen_run import registry
    from torchdeck.contract.plan.launch_plan import WATCHED
    from torchdeck.runs.follower import read_run
    from torchdeck.use_cases.elsewhere.watch import end_watch

    layout = registry().find(asked)
    view = read_run(layout)
    if view.kind != WATCHED:
        raise Refusal(
            f"run {view.id} was started by Torchdeck", fix=f"`torchdeck runs stop {view.id}` stops it"
        )
    if view.is_over:
        raise Refusal(f"the watch {view.id} has already ended")
    end_watch(layout, "terminal")
    print(f"ending the watch {view.id}; the training is left alone")
    return SUCCEEDED


class TrainingWatch(Watch):
    """Watch whose stop key ends the watch, not the training."""

    def __init__(
        self,
        layout: RunLayout,
        display: Display,
        signals: FrontEndSignals,
        controller: DetachedProcess | None = None,
        folder: str = "",
    ) -> None:
        """Prepare the watch; `folder` is empty if a process is watched."""
        super().__init__(layout, display, signals, controller)
        self._folder = folder
        self._empty_since: float | None = None

    def _show(self, view: RunView) -> None:
        if self._last is None and not view.is_over:
            self._display.note(f"{self._signals.stop_key} ends the watch, not the training")
        super()._show(view)
        self._say_empty(view)

    def _say_empty(self, view: RunView) -> None:
        """Say once that nothing of a training is in the folder, some seconds after the agent searches it."""
        if not self._folder or view.state is not RunState.STARTING:
            return
        if self._empty_since is None:
            self._empty_since = time.monotonic()
        if time.monotonic() - self._empty_since < EMPTY_AFTER:
            return
        if not self._has_output and view.checkpoint is None:
            self._display.note(f"nothing found in {self._folder} yet")
        self._folder = ""

    def _answer(self) -> None:
        if self._signals.interrupts <= self._answered:
            return
        self._answered += 1
        if self._answered > 1:
            return
        from torchdeck.use_cases.elsewhere.watch import end_watch

        try:
            end_watch(self._layout, "terminal")
            self._display.note("ending the watch; the training is left alone")
        except Refusal as error:
            self._display.note(str(error))
