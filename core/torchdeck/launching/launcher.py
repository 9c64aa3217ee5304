"""Starts a plan: its run directory, and the controller that executes it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.agent.processes.detached_process import DetachedProcess, start_detached
from torchdeck.contract.atomic import write_bytes, write_json
from torchdeck.contract.free_space import why_refused
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.package import VERSION
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.code.capture import capture
from torchdeck.launching.code.git_state import record_git
from torchdeck.launching.control.run_secrets import (
    MissingSecretError,
    controller_environment,
    plan_secrets,
    run_secrets,
)
from torchdeck.launching.runtime_bundle import ship
from torchdeck.runs.folders.run_directory import RunDirectoryError, create_run_directory, reveal, shown

if TYPE_CHECKING:
    from torchdeck.launching.control.pre_connect import PreConnectingController

CONTROLLER = "torchdeck.launching.control.controller"
"""Module that controls the run whose directory it is given."""


class LaunchError(Refusal):
    """A run cannot be started; the message gives the reason. Nothing was started."""


@dataclass(frozen=True)
class LaunchRecord:
    """The user's input: stored next to the plan, and never read by the code that executes it."""

    text: str
    """The run file, byte for byte."""
    source: str = ""
    """Its path; empty if there is none."""
    overrides: tuple[str, ...] = ()
    """Overrides from `--set` and other options."""
    queued: str = ""
    """Start of a queue's entry, by which its server finds the run again; empty: none."""


def start_run(
    plan: LaunchPlan,
    record: LaunchRecord,
    home: Path,
    *,
    secrets: Mapping[str, str] | None = None,
    logins: Mapping[str, Any] | None = None,
    controller: PreConnectingController | None = None,
) -> tuple[RunLayout, DetachedProcess]:
    """A run and its controller.

    Args:
        plan: what will run.
        record: what the user wrote.
        home: TORCHDECK_HOME.
        secrets: values of [run] secrets that are not in the environment.
        logins: of its nodes, as `Credentials.to_json` gives them.
        controller: one that connects to its nodes already.

    Raises:
        As `create_run` and `start_controller`.
    """
    started: list[DetachedProcess] = []

    def start(hidden: RunLayout) -> None:
        # before the run is there: a front end that dies now leaves a run with its controller, or neither
        taken = None
        if controller is not None:
            found = plan_secrets(plan, {**os.environ, **(secrets or {})}, home, required=True)
            taken = controller.hand_over(shown(hidden), found, logins or {})
        started.append(taken or start_controller(hidden, secrets=secrets, logins=logins))

    return create_run(plan, record, home, secrets=secrets, before_shown=start), started[0]


def create_run(
    plan: LaunchPlan,
    record: LaunchRecord,
    home: Path,
    *,
    secrets: Mapping[str, str] | None = None,
    before_shown: Callable[[RunLayout], None] = lambda _layout: None,
) -> RunLayout:
    """A run directory with everything in it that a controller needs.

    Args:
        plan: what will run.
        record: what the user wrote, frozen beside it.
        home: TORCHDECK_HOME.
        secrets: values of [run] secrets that are not in the environment.
        before_shown: called with the hidden directory, with all in it.

    Raises:
        LaunchError: a secret has no value.
        RunDirectoryError: the home cannot be written.
        ShippingError: the part for the nodes cannot be written.
        CodeGoneError: the script or recipe no longer exists.
    """
    try:
        plan_secrets(plan, {**os.environ, **(secrets or {})}, home, required=True)
    except MissingSecretError as error:
        raise LaunchError(error.what, fix=error.fix, page=error.page) from error
    shipped = ship(home)
    layout = create_run_directory(Home(home).runs, plan.name, time.time())
    try:
        _fill(layout, plan, record, home, shipped)
        before_shown(layout)
        return reveal(layout)
    except BaseException as error:
        shutil.rmtree(layout.root, ignore_errors=True)
        if isinstance(error, OSError):
            raise RunDirectoryError(
                "the run's directory cannot be made",
                f"{error.filename or layout.root}: {why_refused(error, home)}",
                "make room first",
            ) from error
        raise


def _fill(layout: RunLayout, plan: LaunchPlan, record: LaunchRecord, home: Path, shipped: Path) -> None:
    """Write all contents of the hidden run directory."""
    plan = capture(layout, plan, home)
    # one sync at the end covers all of it: without `created` in the journal the run does not exist
    write_bytes(layout.config, record.text.encode("utf-8"), durable=False, private=True)
    write_json(layout.plan, plan.document(), durable=False)
    run_id = layout.root.name.removeprefix(".")
    written: dict[str, Any] = {"source": record.source, "overrides": list(record.overrides)}
    if record.queued:
        written["queued"] = record.queued
    if plan.code.folder:
        written["code_folder"] = plan.code.folder
        record_git(layout, Path(plan.code.folder), plan.code.files.keys())
    if plan.absent:
        written["absent"] = [{"name": node.name, "why": node.why} for node in plan.absent]
    with JournalWriter(layout.journal) as journal:
        journal_created(journal, run_id, plan, shipped, **written)


def journal_created(
    journal: JournalWriter, run_id: str, plan: LaunchPlan, shipped: Path, **fields: Any
) -> None:
    """Journal that the run exists: its plan's properties, and `fields`. Raises OSError."""
    journal.append(
        "created",
        run_id=run_id,
        name=plan.name,
        world_size=plan.world_size,
        kind=plan.kind,
        target=plan.target,
        strategy=plan.strategy,
        fingerprint=plan.fingerprint,
        cli_version=VERSION,
        shipped=str(shipped),
        node_grace=plan.policy.node_grace,
        lost_after=plan.policy.lost_after,
        **fields,
    )


def start_controller(
    layout: RunLayout,
    *,
    secrets: Mapping[str, str] | None = None,
    first: bool = True,
    logins: Mapping[str, Any] | None = None,
) -> DetachedProcess:
    """Start a controller for the run, in its own process session; it takes the run from any other controller.

    Args:
        layout: the run.
        secrets: values of [run] secrets that are not in the environment.
        first: the run cannot continue without it, so every secret must have a value.
        logins: logins of its nodes, as returned by `Credentials.to_json`: the controller cannot ask the user.

    Raises:
        LaunchError: it cannot be started, or a secret has no value.
    """
    try:
        found = run_secrets(layout, {**os.environ, **(secrets or {})}, required=first)
    except MissingSecretError as error:
        raise LaunchError(error.what, fix=error.fix, page=error.page) from error
    # -P: a folder named torchdeck in the working directory must not shadow this package
    argv = [sys.executable, "-P", "-m", CONTROLLER, str(shown(layout).root)]
    env = controller_environment(layout.home.root, found.names)
    try:
        return start_detached(argv, env, layout.controller_log, found.line(logins or {}))
    except OSError as error:
        raise LaunchError("the controller cannot be started", error) from error
