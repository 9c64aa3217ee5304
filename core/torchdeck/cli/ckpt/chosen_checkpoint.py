"""The checkpoints that a command line names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.contract.layout import RunLayout
    from torchdeck.distributed.checkpoints.retention import Retention
    from torchdeck.runs.folders.checkpoints import ScriptCheckpoint
    from torchdeck.runs.run_state import CheckpointSeen

WHERE = "a run's id, a unique prefix of it, its name, or a directory with checkpoints"


class CkptUsageError(Refusal):
    """The requested checkpoint does not exist; the message says what does."""

    is_usage = True


class OnNodesError(CkptUsageError):
    """The requested checkpoints lie on nodes of the run.

    Attributes:
        layout: the run.
        which: a step, a name, `latest` or `all`.
        here: requested checkpoints that lie here.
    """

    def __init__(self, layout: RunLayout, which: str, why: str, here: Sequence[CheckpointInfo] = ()) -> None:
        super().__init__(why)
        self.layout, self.which, self.here = layout, which, here


def checkpoints_of(asked: str) -> list[CheckpointInfo]:
    """Return the checkpoints at a path or of a run's id; raises CkptUsageError."""
    from torchdeck.contract.checkpoints.listing import inspect, list_checkpoints
    from torchdeck.contract.checkpoints.manifest import CheckpointError

    folder = _folder(asked)
    alone = inspect(folder) or _freely_named(folder)
    if alone is not None:
        return [alone]
    try:
        return list_checkpoints(folder)
    except CheckpointError as error:
        raise CkptUsageError(str(error)) from error


def _freely_named(folder: Path) -> CheckpointInfo | None:
    """A checkpoint or export under a name that no run gives, such as one that was converted."""
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, read_manifest

    if not (folder / MANIFEST_NAME).exists():
        return None
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        return CheckpointInfo(folder, -1, complete=False, size=0, manifest=None, why=str(error))
    missing = [name for name in manifest.files_here if not (folder / name).is_file()]
    why = f"{missing[0]} is missing" if missing else ""
    return CheckpointInfo(
        folder, manifest.step, complete=not why, size=manifest.size, manifest=manifest, why=why
    )


def on_a_node(asked: str, here: Sequence[CheckpointInfo]) -> CheckpointSeen | None:
    """The newest checkpoint of the run, as `runs show` has it, if it lies on another node and not here."""
    seen = _newest_on_nodes(asked)
    return None if seen is None or _is_here(seen, here) else seen


def _is_here(seen: CheckpointSeen, here: Sequence[CheckpointInfo]) -> bool:
    return any(info.complete and info.path.name == PurePath(seen.path).name for info in here)


def _newest_on_nodes(asked: str) -> CheckpointSeen | None:
    from torchdeck.contract.inventory import LOCALHOST
    from torchdeck.runs.follower import read_run

    layout = run_named(asked)
    try:
        seen = None if layout is None else read_run(layout).checkpoint
    except (Refusal, OSError):
        return None
    return None if seen is None or seen.node in ("", LOCALHOST) or seen.step is None else seen


def how_to_pull(seen: CheckpointSeen, asked: str) -> str:
    """Where a checkpoint lies that is not here, and the command that brings it."""
    return (
        f"checkpoint {PurePath(seen.path).name} is on node {seen.node} ({seen.path}): "
        f"`torchdeck runs pull {asked} --checkpoints {seen.step}` copies it here"
    )


def of_script(asked: str) -> tuple[ScriptCheckpoint, ...]:
    """Those that a run's script wrote by itself, or that lie in the named folder; oldest first."""
    from torchdeck.runs.folders.checkpoints import checkpoints_in, script_checkpoints

    layout = run_named(asked)
    return checkpoints_in(_folder(asked)) if layout is None else script_checkpoints(layout)


def retention_of(asked: str) -> Retention | None:
    """By which rule the run that is named keeps checkpoints; None if no plan of a recipe says one."""
    from torchdeck.runs.folders import checkpoints

    layout = run_named(asked)
    return None if layout is None else checkpoints.retention_of(layout)


def _folder(asked: str) -> Path:
    """The folder that a path or a run's id names."""
    layout = run_named(asked)
    return _directory_of(layout) if layout is not None else Path(asked).expanduser()


def run_named(asked: str) -> RunLayout | None:
    """The run that is named, by its directory too; None for another folder."""
    from torchdeck.contract.layout import RunLayout

    path = Path(asked).expanduser()
    if asked and path.is_dir():
        layout = RunLayout(path.absolute())
        return layout if layout.plan.is_file() else None
    return _find_run(asked)


def _find_run(asked: str) -> RunLayout:
    from torchdeck.runs.home import torchdeck_home
    from torchdeck.runs.registry import RunRegistry

    try:
        return RunRegistry(torchdeck_home()).find(asked)
    except Refusal as error:
        raise CkptUsageError(error.finding, fix=error.fix, page=error.page) from error


def _directory_of(layout: RunLayout) -> Path:
    """Where the run's plan says its checkpoints lie."""
    from torchdeck.contract.checkpoints.manifest import CheckpointError
    from torchdeck.runs.folders.checkpoints import checkpoint_directory

    try:
        directory = checkpoint_directory(layout)
        # what was pulled from nodes lies in the run's directory, wherever the nodes have it
        pulled = layout.checkpoints.is_dir() and not directory.is_dir()
        return layout.checkpoints if pulled else directory
    except CheckpointError as error:
        raise CkptUsageError(str(error)) from error


def chosen(asked: str, step: str | None, *, every: bool) -> list[CheckpointInfo]:
    """Return the checkpoint of `step` (None: the newest) among those that `asked` names, or `every` one.

    Raises:
        OnNodesError: it, or some of it, lies on nodes.
        CkptUsageError: it does not exist.
    """
    found = checkpoints_of(asked)
    newest, layout = _newest_on_nodes(asked), run_named(asked)
    if newest is None or layout is None or (every and step is not None):
        return _chosen(found, step, every=every)
    why, name = how_to_pull(newest, asked), PurePath(newest.path).name
    is_here = _is_here(newest, found)
    if every and not is_here:
        raise OnNodesError(layout, "all", why, found)
    if step in (None, str(newest.step), name) and not is_here:
        raise OnNodesError(layout, name, why)
    try:
        return _chosen(found, step, every=every)
    except CkptUsageError:
        raise OnNodesError(layout, str(step), why) from None


def _chosen(found: Sequence[CheckpointInfo], step: str | None, *, every: bool) -> list[CheckpointInfo]:
    from torchdeck.contract.checkpoints.listing import is_leftover
    from torchdeck.contract.checkpoints.manifest import checkpoint_name

    if every and step is not None:
        raise CkptUsageError("give STEP or --all, not both")
    checkpoints = [
        info for info in found if not is_leftover(info.path) and not info.path.name.startswith(".")
    ]
    if not checkpoints:
        raise CkptUsageError("there is no checkpoint yet")
    if every:
        return checkpoints
    if step is None:
        return [checkpoints[-1]]
    name = checkpoint_name(int(step)) if step.isdecimal() else step
    named = [info for info in checkpoints if info.path.name == name]
    if not named:
        there = ", ".join(info.path.name for info in checkpoints)
        raise CkptUsageError(f"there is no checkpoint {name}; there are: {there}")
    return named
