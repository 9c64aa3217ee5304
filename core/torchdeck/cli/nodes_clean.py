"""`torchdeck nodes clean`: end what dead runs have left on nodes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.exit_codes import REFUSED, SUCCEEDED
from torchdeck.cli.nodes_chosen import ChosenNodes, chosen_nodes
from torchdeck.cli.nodes_lookup import says_what_is_wrong

if TYPE_CHECKING:
    from torchdeck.nodes.probe.facts import NodeFacts, RunHere

AT_ONCE = 32
"""Nodes that are cleaned at the same time."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "clean",
        help="end processes of runs that nobody looks after any more, after asking",
        description="Ends only processes that carry the id of a run whose agent and holder on that node are "
        "gone; files stay. Exits with 3 where a node is not reached or a process does not end.",
    )
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="these alone; all nodes of the book if none")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON object; needs --yes")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Look, show, ask, end; 3 when something is left undone."""
    from torchdeck.nodes.probe.probing import probe_nodes

    chosen = chosen_nodes(args.nodes)
    facts: dict[str, NodeFacts] = {}
    problems: list[str] = []
    for probed in probe_nodes(chosen.entries, chosen.reach.connect):
        if probed.facts is None:
            problems.append(probed.error)
        else:
            facts[probed.node] = probed.facts
    found = orphans_once({name: facts[name] for name in chosen.entries if name in facts})
    controlled = {run.run_id for runs in found.values() for run in runs if _is_controlled(run, chosen)}
    problems += [
        f"run {run} goes on, and its controller here looks after it: it is left alone" for run in controlled
    ]
    ends = {
        name: [run for run in found[name] if run.run_id not in controlled]
        for name in chosen.entries
        if name in found
    }
    ends = {name: runs for name, runs in ends.items() if runs}
    if ends and not args.yes and not _agreed(ends, asking=not args.json):
        return REFUSED
    answers = _ended(chosen, ends)
    problems += [answer["why"] for answer in answers if answer["why"]]
    _tell(answers, problems, as_json=args.json)
    return REFUSED if problems else SUCCEEDED


def orphans_once(facts: Mapping[str, NodeFacts]) -> dict[str, list[RunHere]]:
    """What dead runs have left, by node: where several names are one host, by the first of them alone."""
    seen: set[tuple[str, str, tuple[int, ...]]] = set()
    found: dict[str, list[RunHere]] = {}
    for name, said in facts.items():
        for run in said.orphans:
            which = (said.system.boot, run.run_id, run.processes)
            if which not in seen:
                found.setdefault(name, []).append(run)
            seen.add(which)
    return found


def _is_controlled(run: RunHere, chosen: ChosenNodes) -> bool:
    """Whether a controller of this home is about to start an agent for the run again."""
    from torchdeck.rundir.journal import NewerFormatError
    from torchdeck.rundir.layout import RunLayout
    from torchdeck.runs.follower import read_run
    from torchdeck.runs.home import runs_folder

    if Path(run.run_id).name != run.run_id:
        return False
    layout = RunLayout(runs_folder(chosen.reach.home) / run.run_id)
    if not layout.journal.is_file():
        return False
    try:
        view = read_run(layout)
    except (NewerFormatError, OSError):
        return False
    return view.controller_alive and not view.is_over


def _agreed(ends: Mapping[str, list[RunHere]], *, asking: bool) -> bool:
    print("These processes carry the id of a run that nobody looks after any more:", file=sys.stderr)
    for node, runs in ends.items():
        for run in runs:
            which = f"rank{'' if len(run.ranks) == 1 else 's'} {', '.join(map(str, run.ranks))}"
            ranks = f", {which}" if run.ranks else ""
            pids = ", ".join(map(str, run.processes))
            print(f"  {node}: run {run.run_id} of {run.user}: pid {pids}{ranks}", file=sys.stderr)
    if not asking or not sys.stdin.isatty():
        print("torchdeck: there is nobody to ask; --yes ends them", file=sys.stderr)
        return False
    print("End them? (yes/no) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("yes", "y")


def _ended(chosen: ChosenNodes, ends: Mapping[str, list[RunHere]]) -> list[dict[str, Any]]:
    from torchdeck.nodes.probe.conversation import ProbeError
    from torchdeck.nodes.probe.probing import clean_node
    from torchdeck.nodes.ssh.errors import SshError

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
        except (SshError, ProbeError) as error:
            return {"node": name, "ended": {}, "kept": [], "left": 0, "why": str(error)}

    if not ends:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(ends)), thread_name_prefix="clean") as pool:
        return list(pool.map(end, ends))


def _tell(answers: list[dict[str, Any]], problems: list[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"nodes": answers, "problems": problems}, ensure_ascii=False, indent=1))
        return
    for answer in answers:
        for run_id, count in answer["ended"].items():
            print(f"{answer['node']}: ended {count} processes of run {run_id}")
        for run_id in answer["kept"]:
            print(f"{answer['node']}: run {run_id} is looked after again, and was left alone")
    for problem in problems:
        print(f"torchdeck: {problem}", file=sys.stderr)
    if not answers and not problems:
        print("nothing is left of dead runs")
