"""All results of a run in its folders on other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from torchdeck.contract.file_names import text_of
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import fill
from torchdeck.launching.preflight.remote.probe_sessions import probe_sessions_with
from torchdeck.launching.pull import checkpoints
from torchdeck.launching.pull.fetching import NotWholeError, fetch_checked
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe.remote_files import RemoteFile, RemoteFiles

REACH_LIMIT = 20.0
NEWEST, ALL, NONE = "latest", "all", "none"
_LAYOUT = RunLayout(Path())
_OUR_OWN = (
    *(_LAYOUT.nodes, _LAYOUT.attempts, _LAYOUT.control, _LAYOUT.plan, _LAYOUT.config, _LAYOUT.journal),
    *(_LAYOUT.code_manifest, _LAYOUT.controller_lock, _LAYOUT.controller_log, _LAYOUT.checkpoints),
)
"""Files mirrored during the run, or requested separately."""

OnProgress = Callable[[str, int, int], None]
"""Current item, bytes that are here, total bytes."""


@dataclass(frozen=True)
class Pulled:
    """One transferred item."""

    what: str
    """Name of a checkpoint or of a node."""
    path: str
    size: int
    new: bool
    """Whether it was not here before."""


@dataclass(frozen=True)
class Sources:
    """Nodes of the run that answer, each with its folder."""

    places: Mapping[str, tuple[RemoteFiles, str]]
    """Node → its files, the run's folder there."""
    refused: Mapping[str, str]
    """Node → why it does not answer."""


@contextmanager
def sources_of(layout: RunLayout, plan: LaunchPlan, connector: Connector) -> Iterator[Sources]:
    """Open probe sessions with the run's other nodes for the duration of the block. Raises ConfigError,
    SshError.
    """
    node_inventory = connector.node_inventory()
    remote = [node for node in plan.all_nodes if node.name != LOCALHOST]
    refused = {
        node.name: f"node {node.name} is not in the node inventory here"
        for node in remote
        if node.name not in node_inventory.nodes
    }
    with ExitStack() as stack:
        asked = [node for node in remote if node.name in node_inventory.nodes]
        probe_sessions = stack.enter_context(probe_sessions_with(asked, connector, REACH_LIMIT))
        places = {}
        for name, probe_session in probe_sessions.with_node.items():
            files = RemoteFiles(probe_session, name)
            places[name] = (files, f"{files.runs(node_inventory.nodes[name].home).folder}/{layout.root.name}")
        yield Sources(places, {**refused, **probe_sessions.refused})


def find_checkpoints(
    sources: Sources, plan: LaunchPlan, run_id: str, which: str
) -> Sequence[checkpoints.Found]:
    """Return the checkpoints on the nodes that `which` names: a step, a name, `latest` or `all`.

    Raises:
        NotWholeError: there is no such checkpoint.
        ProbeError, SshError: a node does not answer any more.
    """
    places = [
        checkpoints.Place(node, files, fill(plan.checkpoint.directory, {"run_dir": root, "run_id": run_id}))
        for node, (files, root) in sources.places.items()
    ]
    return _chosen(checkpoints.find(places), which)


def pull_checkpoints(
    sources: Sources, plan: LaunchPlan, run_id: str, which: str, target: Path, on_progress: OnProgress
) -> Iterator[Pulled]:
    """Fetch checkpoints to `target`, one after the other.

    Args:
        sources: nodes of the run.
        plan: says where checkpoints are stored.
        run_id: the run's id.
        which: a step, a name, `latest` or `all`.
        target: folder for them here.
        on_progress: called with the progress.

    Raises:
        NotWholeError: there is no such checkpoint, or it is incomplete.
        ProbeError, SshError, OSError: see `checkpoints.pull`.
    """
    for found in find_checkpoints(sources, plan, run_id, which):
        staging = target / f"{checkpoints.STAGING}{found.name}"
        staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = checkpoints.total(found, staging)
        counter = Counter(found.name, size, on_progress)
        new = checkpoints.pull(found, target / found.name, counter, staging)
        if not new:
            _remove_empty(staging)
        yield Pulled(found.name, str(target / found.name), size, new)


def pull_outputs(
    sources: Sources,
    plan: LaunchPlan,
    target: Path,
    on_progress: OnProgress,
    without: Sequence[str] = (),
) -> Iterator[Pulled]:
    """Fetch the other files in the run's folder on each node to `target`/NODE; raises as those do.

    `without`: paths on nodes, of files or folders that are not fetched, such as checkpoints.
    """
    for node, (files, root) in sources.places.items():
        listed = [
            *files.tree(root, [str(path) for path in (*_OUR_OWN, _LAYOUT.code)]),
            *_made_in_code(files, root, plan.code.files),
        ]
        left_out = {PurePosixPath(path) for path in without}
        found = [
            file
            for file in listed
            if left_out.isdisjoint((path := PurePosixPath(f"{root}/{file.name}"), *path.parents))
        ]
        if not found:
            continue
        size = sum(file.size for file in found)
        counter = Counter(node, size, on_progress)
        folder = target / node
        new = [fetch_checked(files, root, file, inside(folder, file.name), counter) for file in found]
        yield Pulled(node, str(folder), size, any(new))


def _made_in_code(files: RemoteFiles, root: str, copied: Mapping[str, str]) -> list[RemoteFile]:
    """Return the files that a run has written into its copy of the code, where its ranks start on a node."""
    code = str(_LAYOUT.code)
    return [
        file._replace(name=f"{code}/{file.name}")
        for file in files.tree(f"{root}/{code}")
        if text_of(file.name) not in copied and "__pycache__" not in file.name.split("/")
    ]


def inside(folder: Path, name: str) -> Path:
    """Return the destination of a file; a link in its path would redirect it."""
    target = folder / name
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise NotWholeError(f"{target.parent} is a link to somewhere else", fix="remove it")
    return target


def _chosen(found: Sequence[checkpoints.Found], which: str) -> Sequence[checkpoints.Found]:
    if which == ALL:
        return found
    if which == NEWEST:
        return found[-1:]
    named = [each for each in found if which == each.name or (which.isdecimal() and int(which) == each.step)]
    if not named:
        there = ", ".join(each.name for each in found) or "none"
        raise NotWholeError(f"the nodes have no checkpoint {which}; there are: {there}")
    return named


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


class Counter:
    """Sums up the received bytes of one item."""

    def __init__(self, what: str, size: int, on_progress: OnProgress) -> None:
        self._what, self._size, self._on_progress = what, size, on_progress
        self._have = 0

    def __call__(self, count: int) -> None:
        self._have += count
        self._on_progress(self._what, self._have, self._size)
