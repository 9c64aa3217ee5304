"""Questions and report of `torchdeck nodes clean`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from torchdeck.cli.json_text import json_text
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.nodes.probe.facts import RunHere
    from torchdeck.use_cases.delete import NodeDeletion
    from torchdeck.use_cases.node_leftovers import Leftover


UNKNOWN = "it is not known here, and another machine may have it"
GONE = "someone else removed it meanwhile"


class Left(NamedTuple):
    """Processes and folders that would be ended and removed."""

    processes: Mapping[str, Sequence[RunHere]]
    """By node."""
    folders: Sequence[Leftover]


class Done(NamedTuple):
    """Result of a cleanup."""

    ended: Sequence[Mapping[str, Any]]
    """For each node what `clean_node` gives."""
    folders: Sequence[Leftover]
    deleted: Sequence[NodeDeletion]
    """Result for each of these folders."""
    unknown: Sequence[Leftover]
    """Folders that stay, as their owner is unknown here."""

    def to_json(self) -> dict[str, Any]:
        came = {(each.node, each.run_id): each for each in self.deleted}
        folders = []
        for folder in (*self.folders, *self.unknown):
            each = came.get((folder.node, folder.run_id))
            why = UNKNOWN if each is None else each.why or ("" if each.removed else GONE)
            removed = each is not None and each.removed
            folders.append({**asdict(folder), "removed": removed, "why": why})
        return {"nodes": list(self.ended), "folders": folders}


def agreed(left: Left, *, asking: bool) -> bool:
    """Show it and ask at the terminal; return False if there is none."""
    if left.processes:
        print("These processes carry the id of a run that no one looks after any more:", file=sys.stderr)
    for node, runs in left.processes.items():
        for run in runs:
            which = f"rank{'' if len(run.ranks) == 1 else 's'} {', '.join(map(str, run.ranks))}"
            ranks = f", {which}" if run.ranks else ""
            pids = ", ".join(map(str, run.processes))
            print(f"  {node}: run {run.run_id} of {run.user}: pid {pids}{ranks}", file=sys.stderr)
    if left.folders:
        print("These folders are of runs that were deleted here:", file=sys.stderr)
    for each in left.folders:
        print(f"  {each.node}: run {each.run_id}, {size(each.size)}", file=sys.stderr)
    does = ["end"] * bool(left.processes) + ["remove"] * bool(left.folders)
    if not asking or not sys.stdin.isatty():
        print(f"torchdeck: there is no one to ask; --yes {'s and '.join(does)}s them", file=sys.stderr)
        return False
    print(f"{' and '.join(does).capitalize()} them? (yes/no) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("yes", "y")


def tell(done: Done, problems: Sequence[str], *, as_json: bool) -> None:
    """Print what was done, what is left, and what went wrong."""
    if as_json:
        print(json_text({**done.to_json(), "problems": list(problems)}, indent=1))
        return
    for answer in done.ended:
        for run_id, count in answer["ended"].items():
            print(f"{answer['node']}: ended {count} processes of run {run_id}")
        for run_id in answer["kept"]:
            print(f"{answer['node']}: run {run_id} is looked after again, and was left alone")
    came = {(each.node, each.run_id): each for each in done.deleted}
    for folder in done.folders:
        each = came[folder.node, folder.run_id]
        if not each.why:
            what = f", {size(folder.size)}" if each.removed else f": {GONE}"
            print(f"{folder.node}: {'removed ' if each.removed else ''}run {folder.run_id}{what}")
    for problem in problems:
        print(f"torchdeck: {problem}", file=sys.stderr)
    if not done.ended and not done.folders and not done.unknown and not problems:
        print("nothing is left of dead or deleted runs")
    for folder in done.unknown:
        command = f"`torchdeck runs delete {folder.run_id} --node {folder.node}`"
        what = f"{folder.node}: run {folder.run_id}, {size(folder.size)}, is not known here"
        print(f"{what} and stays, as another machine may have it: {command} removes it")
