"""Build the batch plan that a run names, in a process of its own, which can be ended."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.config.schema import RunConfig
from torchdeck.config.starting_files import run_file_table
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.batch_plans import RECIPE

BATCH_PLAN = "training.batch_plan"
_GLANCE = 0.25
"""Seconds between two checks for cancellation."""
_GRACE = 2.0
"""Seconds that the process gets to remove partial output."""
TOOL = "torchdeck.use_cases.batch_plans.tool"


class BuildError(Refusal):
    """No batch plan was built; the message has the reason."""

    page = "data#batch-plans"


@dataclass(frozen=True)
class PlanOptions:
    """Options of the plan that the run file does not set."""

    token_budget: int
    """Maximum tokens of a microbatch."""
    pack: bool = True
    """Pack several samples into one row to reduce padding."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options as command-line arguments."""
        return (*(("--pack",) if self.pack else ()), "--token-budget", str(self.token_budget))


def can_be_built(config: RunConfig) -> bool:
    """Return whether the run names a batch plan that can be built from its own data."""
    return config.run.recipe == RECIPE and config.training.batch_plan is not None


def usual_options(config: RunConfig) -> PlanOptions:
    """Return reasonable defaults for a run: microbatches of eight of its longest samples."""
    return PlanOptions(8 * int(config.model["context"]))


def by_hand(run_file: str, options: PlanOptions) -> str:
    """Return the equivalent command, on two lines."""
    command = shlex.join(["torchdeck", "batchplan", "build", "--run", run_file])
    return f"{command} \\\n    {shlex.join(options.words)}"


def build_in_process(config: RunConfig, options: PlanOptions, on_progress: Callable[[str], None]) -> None:
    """Build the plan of `config` at the path it names; an existing plan is replaced.

    Args:
        config: a valid run file, its paths absolute.
        options: how to build it.
        on_progress: called often with the current work; an exception from it ends the building, and nothing
            is written.

    Raises:
        BuildError: it cannot be built.
        OSError: the process cannot be started.
    """
    request = {"config": _essence(config), "token_budget": options.token_budget, "pack": options.pack}
    with TemporaryDirectory(prefix="torchdeck-") as name:
        asked, answers, errors = Path(name, "asked"), Path(name, "answers"), Path(name, "errors")
        asked.write_text(json.dumps(request) + "\n", encoding="utf-8")
        with asked.open("rb") as stdin, answers.open("wb") as stdout, errors.open("wb") as stderr:
            process = ChildProcess(
                [sys.executable, "-P", "-m", TOOL], stdin=stdin, stdout=stdout, stderr=stderr
            )
        try:
            code = None
            while code is None:
                on_progress(_answer(answers).get("progress", "reading the data"))
                code = process.exit_code(_GLANCE)
        finally:
            process.end(signal.SIGINT, _GRACE)  # interrupted it leaves nothing half written
        if code:
            raise BuildError(_answer(answers).get("error") or _last_line(errors) or f"exit code {code}")


def _essence(config: RunConfig) -> dict[str, Any]:
    """Return the part of a run's config that determines its batch plan; its paths hold anywhere."""
    table = run_file_table(config)
    training = {key: table["training"].get(key) for key in ("batch_plan", "epochs", "steps")}
    parts = {"run": {"recipe": RECIPE}, "model": config.model, "data": config.data, "training": training}
    return {
        name: {key: value for key, value in part.items() if value is not None} for name, part in parts.items()
    }


def _answer(file: Path) -> dict[str, str]:
    """Return the tool's last answer that is whole; empty before the first."""
    whole = file.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    found: dict[str, str] = json.loads(whole.rpartition("\n")[2] or "{}")
    return found


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
