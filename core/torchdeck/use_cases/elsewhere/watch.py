"""Watching a training that Torchdeck did not start: a run whose agent observes, and starts nothing."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import (
    WATCHED,
    CodeTree,
    LaunchPlan,
    NodePlan,
    RankPlacement,
    WatchedProcess,
)
from torchdeck.contract.plan.policy import CheckpointPolicy, Policy, StdoutPolicy
from torchdeck.contract.plan.slots import escape, slot
from torchdeck.contract.processes import PROC, RUN_ID_VARIABLE, ProcessIdentity
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.launcher import LaunchRecord, start_run
from torchdeck.launching.requests import STOP, write_request
from torchdeck.runs.foreign import NO_RUN_FILE
from torchdeck.runs.home import torchdeck_home
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.view import RunView

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.contract.layout import RunLayout
    from torchdeck.use_cases.ui import Ui

NEVER = 1e9
"""Seconds after which a rank without progress would be flagged as stalled."""
_LATEST = 100
"""Newest runs among which one that watches the same is looked for."""
_REMOTE = re.compile(r"(?P<node>[\w.-]+):(?P<folder>.+)", re.DOTALL)
LOGIN_LIMIT = 20.0
"""Seconds for a node to answer."""


class WatchRefusedError(Refusal):
    """There is nothing to watch; the message says why."""

    page = "start/running#watch-it"

    is_usage = True


@dataclass(frozen=True)
class Watched:
    """A training that is watched now."""

    layout: RunLayout
    controller: DetachedProcess | None
    """None: another front end watches it already."""


@dataclass(frozen=True)
class _Place:
    """Where the training is."""

    node: str
    folder: str
    target: str
    """For a person."""
    name: str
    process: ProcessIdentity | None = None
    words: tuple[str, ...] = ()
    """Arguments of its process."""


def watch_training(
    place: str, pid: int | None, ui: Ui, *, name: str = "", home: Path | None = None
) -> Watched:
    """Watch a folder or a process; one that is watched already is not watched twice.

    Args:
        place: `DIR`, or `NODE:DIR` for a folder on a node of the inventory; empty with a `pid`.
        pid: process of this machine, with all that it starts.
        ui: the front end.
        name: of the run. Default: that of the folder, or of the process's program.
        home: TORCHDECK_HOME.

    Raises:
        Refusal: there is no such folder or process, or the node cannot be reached.
    """
    if not place and pid is None:
        raise WatchRefusedError("no training is given", fix="name a folder, or a process with --pid")
    target = torchdeck_home(home)
    found = _of_process(pid, place) if pid is not None else _of_folder(place)
    known = _watched_already(found, target)
    if known is not None:
        return Watched(known, None)
    logins = None
    if found.node != LOCALHOST:
        connector = ui.connector(target)
        if found.node not in connector.node_inventory().nodes:
            raise WatchRefusedError(
                f"there is no node {found.node} in the node inventory", fix="`torchdeck nodes list` shows all"
            )
        with connector.open_probe_session(found.node, LOGIN_LIMIT):
            logins = connector.credentials.to_json()
    plan = _plan(found, name or found.name)
    layout, controller = start_run(plan, LaunchRecord(NO_RUN_FILE), target, logins=logins)
    ui.adopt(controller)
    return Watched(layout, controller)


def end_watch(layout: RunLayout, origin: str) -> None:
    """Ask the agent of a watched training to end; the training itself is left alone.

    Raises:
        Refusal: the request cannot be written.
    """
    try:
        write_request(layout, STOP, origin)
    except OSError as error:
        raise Refusal("the watch cannot be ended", error) from error


def _of_folder(place: str) -> _Place:
    path = Path(place).expanduser().absolute()
    remote = _REMOTE.fullmatch(place)
    if remote and not path.exists():
        folder = remote["folder"]
        if not folder.startswith("/"):
            raise WatchRefusedError(f"{folder!r} is no absolute folder of node {remote['node']}")
        return _Place(remote["node"], os.path.normpath(folder), place, _base(folder))
    if not path.is_dir():
        raise WatchRefusedError(f"there is no folder {path}")
    path = path.resolve()
    if len(path.parts) < 3:
        raise WatchRefusedError(
            f"{path} contains too many folders to search", fix="name the folder of the training"
        )
    return _Place(LOCALHOST, str(path), str(path), _base(str(path)))


def _of_process(pid: int, place: str) -> _Place:
    process = ProcessIdentity.of(pid) if 0 < pid < 2**31 else None
    if process is None:
        raise WatchRefusedError(f"there is no process {pid}")
    try:
        entry = PROC / str(pid)
        working_dir = str((entry / "cwd").readlink())
        words = [os.fsdecode(word) for word in (entry / "cmdline").read_bytes().split(b"\0")[:-1]]
        variables = (entry / "environ").read_bytes().split(b"\0")
    except OSError as error:
        raise WatchRefusedError(f"process {pid} cannot be inspected", error, "watch its folder") from error
    prefix = f"{RUN_ID_VARIABLE}=".encode()
    own = next((os.fsdecode(each[len(prefix) :]) for each in variables if each.startswith(prefix)), "")
    if own:
        raise WatchRefusedError(
            f"process {pid} belongs to run {own}", fix=f"`torchdeck runs attach {own}` shows it"
        )
    folder = str(Path(place).expanduser().resolve()) if place else working_dir
    script = next((Path(word).stem for word in words[1:] if word.endswith(".py")), "")
    name = script or _base(folder)
    return _Place(LOCALHOST, folder, f"process {pid} in {folder}", name, process, tuple(words[1:]))


def _base(folder: str) -> str:
    return Path(folder).name or "training"


def _watched_already(found: _Place, home: Path) -> RunLayout | None:
    registry = RunRegistry(home)
    views = (view for view in islice(registry.newest_first(), _LATEST) if isinstance(view, RunView))
    same = (view for view in views if view.kind == WATCHED and not view.is_over)
    known = next((view.id for view in same if view.target == found.target), None)
    return None if known is None else registry.find(known)


def _plan(found: _Place, name: str) -> LaunchPlan:
    """Return a plan of one rank that starts nothing. What a foreign command has is no slot."""
    node = NodePlan(
        name=found.node,
        address="",
        node_rank=0,
        nproc=1,
        devices=(),
        working_dir=escape(found.folder),
        torchrun=(),
        rank_holder=(),
        command=(escape(sys.executable), *map(escape, found.words)),
        env={},
        unset=(),
    )
    return LaunchPlan(
        name=name,
        kind=WATCHED,
        target=found.target,
        strategy="",
        backend="",
        world_size=1,
        ranks=(RankPlacement(0, found.node, 0, 0, "cpu"),),
        nodes=(node,),
        batch=None,
        checkpoint=CheckpointPolicy(f"{slot('run_dir')}/checkpoints", "never", None, 0),
        stdout=StdoutPolicy(enabled=True),
        policy=Policy(hang_after=NEVER),
        slots={"run_dir": "the run's directory on the node"},
        code=CodeTree(),
        watched=None if found.process is None else WatchedProcess(*found.process),
    )
