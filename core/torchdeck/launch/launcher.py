"""Starting a plan: its run directory, and the controller that carries it out."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torchdeck
from torchdeck.launch.detached import DetachedProcess, start_detached
from torchdeck.launch.shipping import ship
from torchdeck.plan.launch_plan import LaunchPlan
from torchdeck.rundir.atomic import write_bytes, write_json
from torchdeck.rundir.journal import JournalWriter
from torchdeck.rundir.layout import RunLayout
from torchdeck.rundir.processes import without_run_variables
from torchdeck.runs.directory import RunDirectoryError, create_run_directory
from torchdeck.runs.home import HOME_VARIABLE, runs_folder


class LaunchError(Exception):
    """A run cannot be started; the message says why. Nothing was started."""


@dataclass(frozen=True)
class Intent:
    """What the user wrote: kept beside the plan, and never read by what carries it out."""

    text: str
    """The run file, byte for byte."""
    source: str = ""
    """Where it lies; empty when there is none."""
    overrides: tuple[str, ...] = ()
    """What `--set` and other options said on top of it."""


def create_run(plan: LaunchPlan, intent: Intent, home: Path) -> RunLayout:
    """A run directory with everything in it that a controller needs.

    Args:
        plan: what will run.
        intent: what the user wrote, frozen beside it.
        home: TORCHDECK_HOME.

    Raises:
        RunDirectoryError: the home cannot be written.
        ShippingError: the part for the nodes cannot be written.
    """
    shipped = ship(home)
    layout = create_run_directory(runs_folder(home), plan.name, time.time())
    try:
        # one sync at the end covers all of it: without `created` in the journal the run does not exist
        write_bytes(layout.config, intent.text.encode("utf-8"), durable=False, private=True)
        write_json(layout.plan, plan.document(), durable=False)
        with JournalWriter(layout.journal) as journal:
            journal.append(
                "created",
                run_id=layout.root.name,
                name=plan.name,
                world_size=plan.world_size,
                kind=plan.kind,
                target=plan.target,
                strategy=plan.strategy,
                fingerprint=plan.fingerprint,
                cli_version=torchdeck.__version__,
                shipped=str(shipped),
                source=intent.source,
                overrides=list(intent.overrides),
            )
    except OSError as error:
        raise RunDirectoryError(
            f"{layout.root} cannot be written ({error.strerror}): make room first"
        ) from error
    return layout


def start_controller(layout: RunLayout) -> DetachedProcess:
    """A controller for the run, in a session of its own; it takes the run from whoever has it.

    Raises:
        LaunchError: it cannot be started.
    """
    # -P: a folder called torchdeck in the working directory must not be taken for this one
    argv = [sys.executable, "-P", "-m", "torchdeck.cli.main", "--no-gui", "--plan", str(layout.root)]
    env = {**without_run_variables(os.environ), HOME_VARIABLE: str(layout.root.parent.parent)}
    try:
        return start_detached(argv, env, layout.controller_log)
    except OSError as error:
        raise LaunchError(f"the controller cannot be started: {error}") from error
