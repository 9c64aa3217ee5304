"""`torchdeck nodes clean`: end and remove what dead and deleted runs have left on nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torchdeck.cli.nodes.lookup import ChosenNodes, chosen_nodes, says_what_is_wrong
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.probe.facts import NodeFacts, RunHere
    from torchdeck.use_cases.delete import NodeDeletion
    from torchdeck.use_cases.node_leftovers import Leftover


AT_ONCE = 32
"""Nodes that are cleaned at the same time."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "clean",
        help="end and remove what dead and deleted runs left, after asking",
        description="Ends only processes that carry the id of a run whose agent and shim on that node are "
        "gone, and removes only folders of runs that were deleted on this machine. Exits with 3 "
        "if a node is not reachable, a process does not end or a folder cannot be removed.",
    )
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE", help="only these nodes; default: all nodes of the inventory"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON object; needs --yes")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Look, show, ask, end and remove; 3 when something is left undone."""
    from torchdeck.nodes.probe.probing import probe_nodes
    from torchdeck.runs.folders.node_parts import forget_left
    from torchdeck.use_cases.node_leftovers import find_leftovers

    chosen = chosen_nodes(args.nodes)
    facts: dict[str, NodeFacts] = {}
    problems: list[str] = []
    for probed in probe_nodes(chosen.entries, chosen.reach.connect):
        if probed.facts is None:
            problems.append(probed.error)
        else:
            facts[probed.node] = probed.facts
    orphans = orphans_once({name: facts[name] for name in chosen.entries if name in facts})
    controlled = {run.run_id for runs in orphans.values() for run in runs if _is_controlled(run, chosen)}
    problems += [
        f"run {run} continues, and its controller here looks after it: it is left alone" for run in controlled
    ]
    ends = {name: [run for run in runs if run.run_id not in controlled] for name, runs in orphans.items()}
    ends = {name: runs for name, runs in ends.items() if runs}
    found = find_leftovers([name for name in chosen.entries if name in facts], chosen.reach)
    problems += found.problems
    left = Left(ends, [each for each in found.folders if each.was_deleted])
    if (left.processes or left.folders) and not args.yes and not agreed(left, asking=not args.json):
        return REFUSED
    answers = _ended(chosen, ends)
    problems += [answer["why"] for answer in answers if answer["why"]]
    deleted = _deleted(left.folders, chosen.reach)
    problems += [str(each) for each in deleted if each.why]
    for name, run_id in found.gone:
        forget_left(chosen.reach.home, run_id, name)
    done = Done(answers, left.folders, deleted, [each for each in found.folders if not each.was_deleted])
    tell(done, problems, as_json=args.json)
    return REFUSED if problems else SUCCEEDED


def orphans_once(facts: Mapping[str, NodeFacts]) -> dict[str, list[RunHere]]:
    """Return the leftovers of dead runs, by node: if several names are one host, by the first of them
    alone.
    """
    seen: set[tuple[str, str, str, tuple[int, ...]]] = set()
    found: dict[str, list[RunHere]] = {}
    for name, said in facts.items():
        for run in said.orphans:
            # containers of one host have its boot, names of their own, and may have the same pids
            which = (said.system.boot, said.system.host, run.run_id, run.processes)
            if which not in seen:
                found.setdefault(name, []).append(run)
            seen.add(which)
    return found


def _deleted(folders: Sequence[Leftover], reach: Connector) -> Sequence[NodeDeletion]:
    """Remove these, which were shown, and nothing else."""
    from torchdeck.use_cases.delete import delete_runs

    runs: dict[str, list[str]] = {}
    for each in folders:
        runs.setdefault(each.node, []).append(each.run_id)
    return delete_runs(runs, reach)


def _is_controlled(run: RunHere, chosen: ChosenNodes) -> bool:
    """Whether a controller of this home is about to start an agent for the run again."""
    from torchdeck.contract.layout import Home
    from torchdeck.runs.follower import read_run

    if Path(run.run_id).name != run.run_id:
        return False
    layout = Home(chosen.reach.home).run(run.run_id)
    if not layout.journal.is_file():
        return False
    try:
        view = read_run(layout)
    except (Refusal, OSError):
        return False
    return view.controller_alive and not view.is_over


def _ended(chosen: ChosenNodes, ends: Mapping[str, list[RunHere]]) -> list[dict[str, Any]]:
    from torchdeck.nodes.probe.probing import clean_node

    def end(name: str) -> dict[str, Any]:
        ids = [run.run_id for run in ends[name]]
        try:
            said = clean_node(name, chosen.entries[name], chosen.reach.connect, ids)
            left = int(said["left"])
            why = f"node {name}: {left} processes do not end: look at them there" if left else ""
            return {
                "node": name,
                "ended": dict(said["ended"]),
                "kept": list(said["kept"]),
                "left": left,
                "why": why,
            }
        except Refusal as error:
            return {"node": name, "ended": {}, "kept": [], "left": 0, "why": str(error)}

    if not ends:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(ends)), thread_name_prefix="clean") as pool:
        return list(pool.map(end, ends))


# Questions and report of `torchdeck nodes clean`.

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
