"""Watched run on a terminal: output scrolls by, and the status stays in place below it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from torchdeck.cli.console import make_console
from torchdeck.cli.runs.display import attempt_text
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.quantities import duration
from torchdeck.runs import reasons
from torchdeck.runs.audit.result import DEFECT, Audit
from torchdeck.runs.links import LinkState
from torchdeck.runs.rank_output import OutputLine
from torchdeck.runs.run_state import CheckpointSeen, RunState
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView
from torchdeck.shown_text import shown_log

REDRAW = 0.25
"""Seconds between two redraws while nothing but time changes."""
BAR_WIDTH = 60
TRAINER_LINE = re.compile(r"step \d+/\S+ (loss|validation_loss|heldout_loss) ")
"""Line that a recipe's trainer prints for every step; here it is shown below, in place."""
COLOURS = {
    RunState.RUNNING: "green",
    RunState.SUCCEEDED: "bold green",
    RunState.FAILED: "bold red",
    RunState.LOST: "bold red",
    RunState.CANCELLED: "yellow",
    RunState.STOPPING: "yellow",
    RunState.RESTARTING: "yellow",
    RunState.QUEUED: "cyan",
}

MOST_NODES = 8
"""Most nodes that get a line each while code is sent."""
DEFECT_COLOUR = "bold white on red"
"""Style of a line about samples that differ from the plan."""


class TerminalDisplay:
    """Implements `Display` with rich. Restores the terminal at `end`."""

    def __init__(self, console: Console | None = None, *, attached: bool = False) -> None:
        """Show on `console` (default: standard output); `attached` if the run was attached to, not started
        here.
        """
        self._attached = attached
        self._console = console or make_console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._view: RunView | None = None
        self._since = time.monotonic()
        self._progress: TrainingProgress | None = None
        self._directory = ""
        self._drawn = 0.0
        self._sending: tuple[LinkState, ...] = ()

    def begin(self, view: RunView, directory: str) -> None:
        self._directory = directory
        ranks = "1 rank" if view.world_size == 1 else f"{view.world_size} ranks"
        self._console.print(
            Text.assemble((view.name, "bold"), f"  {view.target} on {ranks}  ", (view.id, "dim"))
        )
        self._console.print(Text(directory, style="dim"), soft_wrap=True)
        self._live.start()

    def state(self, view: RunView) -> None:
        if self._view is None or self._view.state is not view.state:
            self._since = time.monotonic()
        self._view = view
        self._draw()

    def output(self, line: OutputLine) -> None:
        if self._view is not None and self._view.kind == "recipe" and TRAINER_LINE.match(line.text):
            return
        colour = "red" if line.stream == "stderr" else "dim"
        text = Text.from_ansi(shown_log(line.text, colours=True))
        self._console.print(Text.assemble((f"[rank {line.rank}] ", colour), text), soft_wrap=True)

    def progress(self, progress: TrainingProgress) -> None:
        self._progress = progress
        self._draw()

    def sending(self, links: Sequence[LinkState]) -> None:
        self._sending = tuple(links)
        self._draw()

    def checkpoint(self, checkpoint: CheckpointSeen) -> None:  # noqa: ARG002 - progress names its step
        self._draw()

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"), soft_wrap=True)

    def tick(self) -> None:
        if time.monotonic() - self._drawn >= REDRAW:
            self._draw()

    def end(self, view: RunView, audit: Audit | None = None) -> None:
        self._live.stop()
        if not view.is_over:
            return
        if self._progress is not None and self._progress.step is not None:
            self._console.print(Text(self._progress.text(self._console.width), style="dim"), soft_wrap=True)
        head, *rest = summary_lines(view, self._directory, audit)
        self._console.print(Text(head, style=COLOURS.get(view.state, "")), soft_wrap=True)
        for line in rest:
            self._console.print(Text(line, style=DEFECT_COLOUR if DEFECT in line else ""), soft_wrap=True)

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._live.is_started:
            self._live.update(Group(*self._lines()), refresh=True)

    def _lines(self) -> list[Text | Table]:
        view = self._view
        if view is None:
            return []
        head = Text.assemble(
            (view.state_word, "" if view.is_ended_watch else COLOURS.get(view.state, "")),
            f"  {duration(time.monotonic() - self._since)}",
            f"  {view.why}" if view.why else "",
        )
        if view.attempt is not None and view.attempt > 1:
            head.append(f"  {attempt_text(view)}", style="dim")
        if not view.is_over:
            hint = "ends it now" if view.state is RunState.STOPPING else "stops"
            keys = f"Ctrl-C leaves, Ctrl-\\ {hint}" if self._attached else f"Ctrl-C {hint}"
            if view.kind == WATCHED:  # who attached to it cannot end it by a key
                keys = "Ctrl-C leaves" if self._attached else "Ctrl-C ends the watch"
            head.append(f"   {keys}", style="dim")
        return [head, *self._sending_lines(), *self._progress_lines()]

    def _sending_lines(self) -> list[Text | Table]:
        """One line per node; if there are too many next to the ranks' output, their number."""
        lines = [reasons.code_to(link) for link in self._sending[:MOST_NODES]]
        more = len(self._sending) - len(lines)
        return [Text(line) for line in [*lines, *([f"and to {more} more nodes"] if more else [])]]

    def _progress_lines(self) -> list[Text | Table]:
        progress = self._progress
        if progress is None:
            return []
        text = Text(progress.text(self._console.width), overflow="fold")
        if progress.step is None or not progress.total:
            return [text]
        bar = Table.grid()  # a bar alone does not end its line
        bar.add_row(ProgressBar(total=progress.total, completed=progress.step, width=BAR_WIDTH))
        return [bar, text]
