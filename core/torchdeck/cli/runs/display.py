"""Display of a watched run: plain lines or JSON objects. For a terminal, see `terminal`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Protocol

from torchdeck.cli.output import json_text, write_log_line
from torchdeck.runs import reasons
from torchdeck.runs.audit.result import Audit
from torchdeck.runs.links import LinkState
from torchdeck.runs.rank_output import OutputLine
from torchdeck.runs.run_state import CheckpointSeen
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView

PROGRESS_INTERVAL = 5.0
"""Seconds between two plain progress lines."""


class Display(Protocol):
    """Display of a watched run. Each method may raise OSError if its reader is gone."""

    def begin(self, view: RunView, directory: str) -> None:
        """The run exists."""

    def state(self, view: RunView) -> None:
        """State or reason has changed."""

    def output(self, line: OutputLine) -> None:
        """A rank printed a line."""

    def progress(self, progress: TrainingProgress) -> None:
        """Training has progressed."""

    def sending(self, links: Sequence[LinkState]) -> None:
        """Progress of copying code to nodes; if empty, no copy is under way any more."""

    def checkpoint(self, checkpoint: CheckpointSeen) -> None:
        """A new complete checkpoint exists."""

    def note(self, text: str) -> None:
        """Show a note to the user."""

    def tick(self) -> None:
        """Time has passed."""

    def end(self, view: RunView, audit: Audit | None = None) -> None:
        """The run is over, or watching is; with the run's audit if there is one."""


class PlainDisplay:
    """Plain lines: output of ranks as it comes, and Torchdeck's own, which begin with `torchdeck:`."""

    def __init__(self) -> None:
        self._shown = -PROGRESS_INTERVAL
        self._last = ""
        self._why = ""
        self._directory = ""
        self._held_back: TrainingProgress | None = None
        self._sending = -PROGRESS_INTERVAL

    def begin(self, view: RunView, directory: str) -> None:
        self._directory = directory
        ranks = "1 rank" if view.world_size == 1 else f"{view.world_size} ranks"
        _line(f"run {view.id}: {view.target} on {ranks}")
        _line(f"run directory: {directory}")

    def state(self, view: RunView) -> None:
        attempt = f" ({attempt_text(view)})" if view.attempt is not None and view.attempt > 1 else ""
        self._why = view.why
        if not view.is_over:
            _line(f"{view.state}{attempt}{f': {view.why}' if view.why else ''}")

    def output(self, line: OutputLine) -> None:
        stream = sys.stderr if line.stream == "stderr" else sys.stdout
        write_log_line(f"[rank {line.rank}] ", line.text, stream)
        stream.flush()

    def progress(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        if now - self._shown < PROGRESS_INTERVAL:
            self._held_back = progress
            return
        self._show(progress)
        self._shown = now

    def sending(self, links: Sequence[LinkState]) -> None:
        now = time.monotonic()
        if links and now - self._sending >= PROGRESS_INTERVAL:
            self._sending = now
            for link in links:
                _line(reasons.code_to(link))

    def checkpoint(self, checkpoint: CheckpointSeen) -> None:
        took = "" if checkpoint.seconds is None else f" in {checkpoint.seconds:.2f} s"
        step, name = checkpoint.step, PurePath(checkpoint.path).name
        what = name if step is None else f"of {'about ' * checkpoint.about}step {step}"
        _line(f"checkpoint {what} saved{took}")

    def note(self, text: str) -> None:
        if text != self._why:  # it stands behind the state already
            _line(text)

    def tick(self) -> None:
        if self._held_back is not None and time.monotonic() - self._shown >= PROGRESS_INTERVAL:
            self.progress(self._held_back)

    def end(self, view: RunView, audit: Audit | None = None) -> None:
        if self._held_back is not None and self._held_back.step is not None:
            self._show(self._held_back)
        if view.is_over:
            print("\n".join(summary_lines(view, self._directory, audit)), flush=True)

    def _show(self, progress: TrainingProgress) -> None:
        self._held_back = None
        text = progress.text()
        if text and text != self._last:
            _line(text)
            self._last = text


class JsonDisplay:
    """One JSON object per line, each with `event`, `time` (unix) and `run`."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def begin(self, view: RunView, directory: str) -> None:
        self._write("run", name=view.name, directory=directory, world_size=view.world_size)

    def state(self, view: RunView) -> None:
        self._write("state", state=view.state.value, why=view.why, attempt=view.attempt)

    def output(self, line: OutputLine) -> None:
        self._write("output", attempt=line.attempt, rank=line.rank, stream=line.stream, text=line.text)

    def progress(self, progress: TrainingProgress) -> None:
        self._write("progress", **progress.to_json())

    def sending(self, links: Sequence[LinkState]) -> None:
        for link in links:
            self._write("code", node=link.node, sent=link.code_sent, size=link.code_size)

    def checkpoint(self, checkpoint: CheckpointSeen) -> None:
        self._write("checkpoint", step=checkpoint.step, path=checkpoint.path, seconds=checkpoint.seconds)

    def note(self, text: str) -> None:
        self._write("note", text=text)

    def tick(self) -> None:
        """Nothing changes with time."""

    def end(self, view: RunView, audit: Audit | None = None) -> None:
        fields = {name: value for name, value in view.to_json().items() if name != "id"}
        self._write("end", **fields, audit=None if audit is None else audit.to_json())

    def _write(self, event: str, **fields: Any) -> None:
        record = {"event": event, "time": time.time(), "run": self._run_id, **fields}
        print(json_text(record, default=str), flush=True)


def attempt_text(view: RunView) -> str:
    """Return `attempt 2, from step 200`."""
    found = [attempt for attempt in view.attempts if attempt.number == view.attempt]
    step = found[-1].resume_step if found else None
    seen = view.checkpoint
    about = (
        "about " if seen is not None and seen.about and found[-1:] and found[-1].resume == seen.path else ""
    )
    smaller = [attempt.world_size for attempt in found if attempt.world_size not in (None, view.world_size)]
    ranks = "".join(f", {count} rank{'' if count == 1 else 's'} of {view.world_size}" for count in smaller)
    return f"attempt {view.attempt}" + ("" if step is None else f", from {about}step {step}") + ranks


def _line(text: str) -> None:
    print(f"torchdeck: {text}", flush=True)
