"""Check that the nodes see what a run executes and reads in place: run.sync = "none", and data by its
path.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.facts.code_tree import MAX_BYTES
from torchdeck.launching.preflight.initial_weights import resumes
from torchdeck.nodes.background import on_each
from torchdeck.nodes.probe.facts import Count, NodeData, Text
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood
from torchdeck.plan.check import Check, failed, ok, warning

ASK_LIMIT = 10.0
_SHARE = 'share that folder with the node under the same path, or run.sync = "auto", which sends a copy'


class Wanted(NamedTuple):
    """File or folder that every node must see."""

    what: str
    path: str
    sha256: str = ""
    """Required content; empty: any."""
    kind: str = ""
    """`file` or `folder`; empty: either."""


class Seen(NodeData):
    """Result of a node's check of a path."""

    path: Text
    kind: Text
    size: Count
    sha256: Text
    readable: bool


def needs_sharing(config: RunConfig) -> bool:
    """Return whether any file must be on the nodes under the path that it has here."""
    return config.run.sync == "none" or bool(_data(config))


def check_shared(config: RunConfig, probe_sessions: Mapping[str, ProbeSession]) -> Iterator[Check]:
    """Yield one check for each file that a node does not see, or one passed check if it sees everything.

    A random file is placed next to the script during the check. The script itself could be another copy
    there, which would diverge.

    Args:
        config: config of the run.
        probe_sessions: probe sessions with the nodes that are not this machine.
    """
    with _token(config) as token:
        wanted = [*([token] if token is not None else []), *_code(config), *_data(config)]
        paths = [each.path for each in wanted]

        def look(name: str) -> list[Check]:
            try:
                answer = probe_sessions[name].ask(ProbeRequest.SEEN, ASK_LIMIT, paths=paths)
                seen = [Seen.model_validate(item) for item in answer["seen"]]
            except (ProbeError, ValidationError, KeyError, TypeError) as error:
                return [failed("shared files", name, str(error), "check the node, then try again")]
            bad = [check for pair in zip(wanted, seen, strict=False) for check in _judge(name, *pair)]
            return bad or [
                ok("shared files", name, f"sees {', '.join(dict.fromkeys(each.what for each in wanted))}")
            ]

        for checks in on_each(probe_sessions, look, "shared files"):
            yield from checks


def _judge(node: str, wanted: Wanted, seen: Seen) -> Iterator[Check]:
    own = wanted.what in ("data", "model")  # not what Torchdeck sends
    name = wanted.what if own else "shared files"
    fix = "create it there, or name an existing one" if own else _SHARE
    if not seen.kind:
        yield failed(name, node, f"{wanted.what} {wanted.path} does not exist", fix)
    elif wanted.kind and seen.kind != wanted.kind:
        yield failed(name, node, f"{wanted.what} {wanted.path} is no {wanted.kind} there", fix)
    elif not seen.readable:
        yield failed(
            name,
            node,
            f"{wanted.what} {wanted.path} cannot be read there: permission denied",
            "change its mode",
        )
    elif wanted.sha256 and seen.sha256 != wanted.sha256:
        yield failed(name, node, f"{wanted.what} {wanted.path} has different content there", fix)


@contextmanager
def _token(config: RunConfig) -> Iterator[Wanted | None]:
    """Create a random file next to the script; None if there is nothing to share, or it cannot be created."""
    run = config.run
    main = run.script or (run.recipe if run.recipe not in BUILTIN_RECIPES else None)
    folder = Path(main).parent if main is not None else Path(run.working_dir or ".")
    if run.sync != "none" or run.recipe in BUILTIN_RECIPES:
        yield None
        return
    path = folder.absolute() / f".torchdeck-{secrets.token_hex(8)}.token"
    content = secrets.token_hex(32).encode("ascii")
    try:
        path.write_bytes(content)
    except OSError:
        yield None  # read only, as data sets are; use the script's own content
        return
    try:
        what = "a file that was just written next to what runs,"
        yield Wanted(what, str(path), hashlib.sha256(content).hexdigest(), "file")
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _code(config: RunConfig) -> list[Wanted]:
    run = config.run
    if run.sync != "none":
        return []
    found = []
    for what, name in (("script", run.script), ("recipe", run.recipe)):
        if name is not None and name not in BUILTIN_RECIPES:
            with contextlib.suppress(OSError):
                content = hashlib.sha256(read_bounded(name, MAX_BYTES)).hexdigest()
                found.append(Wanted(what, name, content, "file"))
    if run.module is not None:
        found.append(Wanted("working directory", run.working_dir or str(Path.cwd()), kind="folder"))
    return found


def _data(config: RunConfig) -> list[Wanted]:
    """Return the data of built-in recipes and batch plans, whose paths are known to be paths."""
    found = []
    if config.run.recipe in BUILTIN_RECIPES:
        tokens, source = config.data.get("tokens"), str(config.data.get("source", "stdlib"))
        if tokens is not None:
            found.append(Wanted("data", str(tokens), kind="file"))
        elif source != "stdlib":
            found.append(Wanted("data", source))
        if config.model.get("path") is not None:
            found.append(Wanted("model", str(config.model["path"]), kind="folder"))
        if config.model.get("init_from") is not None and not resumes(config):
            found.append(Wanted("model", str(config.model["init_from"])))
    if config.run.recipe is not None and config.training.batch_plan is not None:
        found.append(Wanted("data", config.training.batch_plan))
    return found


# Check whether the nodes keep checkpoints in one folder; if not, whether the run may continue without a
# node's share of them.

_NAME = "checkpoints"
_FIX = (
    "set checkpoint.replicas = 1, which stores a copy of each part on a second node, or name a folder that "
    "all nodes share in checkpoint.directory"
)


def disks_of(probe_sessions: Mapping[str, ProbeSession], folders: Mapping[str, str]) -> dict[str, str]:
    """Find nodes with the same folder: each creates a file there, and all check for those of the others.

    Args:
        probe_sessions: probe sessions with the nodes, in the order of node ranks.
        folders: by node, its checkpoint folder, or a parent of it.

    Returns:
        Node → the first node that has the same folder; itself if no earlier one has.

    Raises:
        ProbeError: a node did not answer, or the first cannot write there.
    """
    first, *others = probe_sessions

    def lay(node: str) -> str:
        try:
            with understood(node):
                return str(
                    probe_sessions[node].ask(ProbeRequest.LAY_MARK, ASK_LIMIT, folder=folders[node])["name"]
                )
        except ProbeError:
            if node == first:
                raise
            return ""  # another check reports this; it may still see the folder

    def sees(node: str) -> str:
        answer = probe_sessions[node].ask(
            ProbeRequest.SEE_MARK, ASK_LIMIT, folder=folders[node], names=list(laid)
        )
        with understood(node):
            return next((owner for mark, owner in laid.items() if mark in answer["seen"]), node)

    try:
        laid = {lay(first): first}
        laid |= {mark: node for node, mark in zip(others, on_each(others, lay, "marks"), strict=True) if mark}
        return {first: first, **dict(zip(others, on_each(others, sees, "marks"), strict=True))}
    finally:
        on_each(probe_sessions, lambda node: _remove(probe_sessions[node]), "marks")


def _remove(probe_session: ProbeSession) -> None:
    with contextlib.suppress(ProbeError):  # it is removed with the session, too
        probe_session.ask(ProbeRequest.REMOVE_MARKS, ASK_LIMIT)


def check_parts(config: RunConfig, plan: LaunchPlan, disks: Mapping[str, str]) -> Iterator[Check]:
    """Yield one check for each node except the first, based on the result of `disks_of`.

    Nodes with disks of their own combine their shares if all of them take part. A run that continued without
    a node would find no complete checkpoint.
    """
    first, replicas = plan.nodes[0].name, config.checkpoint.replicas
    lossy = bool(plan.spares) or any(size.nodes < len(plan.nodes) for size in plan.smaller)
    # only a spare can be missing in that case
    one_folder = all(disks.get(node.name, first) == first for node in plan.nodes) and len(plan.nodes) > 1
    # without such saves there is a checkpoint only after a stop, and a lost node costs the usual amount
    saves = config.checkpoint.every is not None or config.checkpoint.every_epochs is not None
    for node in (name for name in disks if name != first):
        if disks[node] == first:
            yield ok(_NAME, node, f"has the same folder for checkpoints as {first}")
        elif one_folder:
            what = "it lacks the folder in which the others save checkpoints, so it cannot replace a node"
            yield failed(_NAME, node, what, "share the folder with it, too, or choose another spare node")
        elif replicas:
            more = "another node" if replicas == 1 else f"{replicas} other nodes"
            yield ok(_NAME, node, f"its part of each checkpoint is on its own disk, with a copy on {more}")
        elif not lossy:
            yield ok(_NAME, node, "its part of each checkpoint is on its own disk")
        else:
            lets = "a spare node" if plan.spares else f'distributed.nodes = "{config.distributed.nodes}"'
            what = (
                "its part of each checkpoint is on its own disk, so without it the others cannot resume "
                f"after a node is lost, as {lets} allows"
            )
            yield (failed if saves else warning)(_NAME, node, what, _FIX)
