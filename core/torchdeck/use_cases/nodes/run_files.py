"""Use case: the files of a run's directory on one of its nodes, listed and fetched."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.pull.fetching import NotWholeError, fetch_checked
from torchdeck.launching.pull.result_files import inside
from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.remote_files import RemoteFile, RemoteFiles
from torchdeck.runs.folders.file_tree import FileTree
from torchdeck.use_cases.opening.shell import shell_nodes
from torchdeck.use_cases.ui import Ui

LIMIT = 20.0
"""Timeout in seconds until a node answers."""
Transfer = Callable[[str, int, int], None]
"""Called with the current file, the bytes that are here, and all bytes."""


@dataclass(frozen=True)
class Fetched:
    """Result of a fetch."""

    folder: Path
    """Folder with the files, under their names in the run's directory."""
    files: int
    problems: tuple[str, ...]
    """Files that are not here, one sentence each."""


def list_files(layout: RunLayout, node: str | None, ui: Ui) -> FileTree:
    """Return the files of a run's directory on a node. Blocks.

    Args:
        layout: of the run.
        node: one of its nodes; None: its first one.
        ui: the front end.

    Raises:
        Refusal: the node cannot be reached, or its answer makes no sense.
    """
    with _opened(layout, node, ui) as (files, root):
        return FileTree(files.tree(root))


def fetch_files(
    layout: RunLayout,
    node: str | None,
    paths: Sequence[str],
    to: Path,
    ui: Ui,
    transfer: Transfer = lambda _what, _done, _total: None,
) -> Fetched:
    """Copy files or folders of a run's directory from a node to `to`/RUN/NODE. Blocks.

    Files that are here already, by size and time, are not copied again; an interrupted file continues.

    Args:
        layout: of the run.
        node: one of its nodes; None: its first one.
        paths: below the run's directory; "" is all of it.
        to: folder here.
        ui: the front end; its `check` may cancel between two pieces.
        transfer: called with the progress.

    Raises:
        Refusal: the node cannot be reached, there is no such file, or the disk here is full.
    """
    with _opened(layout, node, ui) as (files, root):
        wanted = FileTree(files.tree(root)).files(paths)
        folder = to / layout.root.name / _name(layout, node)
        done, total, problems = 0, sum(file.size for file in wanted), []

        def count(file: RemoteFile, received: int) -> None:
            nonlocal done
            done += received
            ui.check()
            transfer(file.name, done, total)

        for file in wanted:
            before = done
            try:
                target = inside(folder, file.name)
                fetch_checked(files, root, file, target, partial(count, file))
            except NotWholeError as error:
                problems.append(str(error))
                done = before + file.size
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise Refusal(f"{file.name} cannot be written: {error.strerror}") from error
                problems.append(f"{file.name} cannot be written: {error.strerror}")
                done = before + file.size
        return Fetched(folder, len(wanted) - len(problems), tuple(problems))


def _name(layout: RunLayout, node: str | None) -> str:
    nodes = shell_nodes(layout)
    if node is not None and node not in nodes:
        raise Refusal(f"run {layout.root.name} has no node {node}", fix=f"its nodes: {', '.join(nodes)}")
    name = node or nodes[0]
    if Path(name).name != name or name in ("", ".."):
        raise Refusal(f"{name!r} is not the name of a node")
    return name


@contextmanager
def _opened(layout: RunLayout, node: str | None, ui: Ui) -> Iterator[tuple[RemoteFiles, str]]:
    """Yield the files of a node, and the run's directory there."""
    name = _name(layout, node)
    if name == LOCALHOST:
        with probe_session_here(name, sys.executable) as session:
            yield RemoteFiles(session, name), str(layout.root)
        return
    connector = ui.connector(layout.home.root)
    entry = connector.entry(name)
    with connector.open_probe_session(name, LIMIT) as session:
        files = RemoteFiles(session, name)
        yield files, f"{files.runs(entry.home).folder}/{layout.root.name}"
