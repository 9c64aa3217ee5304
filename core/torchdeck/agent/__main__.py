"""Started on a node, once or again: `python -I -B .../agent/__main__.py --run-dir DIR --node NAME`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # -I leaves the shipped folder out

from torchdeck.agent.agent import Agent, alert_watch
from torchdeck.agent.attempt.handover import Handover, HandoverError, read_handover
from torchdeck.agent.gang.recovered_state import replay
from torchdeck.agent.startup import read_plan, read_recovered_state, session_of_run, take_lock
from torchdeck.agent.supervisor_process import (
    PROCESS_NAME,
    agent_argv,
    log_to_standard_error,
    set_process_name,
)
from torchdeck.contract.journal import PatientJournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import WATCHED, LaunchPlan
from torchdeck.contract.processes import ProcessIdentity, make_private
from torchdeck.contract.refusal import Refusal

EXIT_UNUSABLE = 2
"""The run directory cannot be used: no plan, or a newer format."""
ERROR_LIMIT = 300
"""Characters of an error that are journaled."""
EXIT_LOCKED = 4
"""Another agent supervises this node's part already."""


def main(arguments: list[str]) -> int:
    """Supervise one node's part of a run; 0 once the run is finished."""
    options = _parse(arguments)
    make_private()
    log_to_standard_error()
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(
            number, lambda *_: None
        )  # a terminal that closes is no reason to end; a handler is not inherited
    layout = RunLayout(Path(options.run_dir).resolve())
    node = layout.node(options.node)
    node.inbox.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        handover = read_handover()
    except HandoverError as error:
        return _unusable(error)
    lock = take_lock(node.lock)
    if lock is None:
        print(f"another agent supervises {node.root}", file=sys.stderr)
        return EXIT_LOCKED
    return _supervise(options, layout, handover)


def _supervise(options: argparse.Namespace, layout: RunLayout, handover: Handover) -> int:
    """With the node's lock held, which goes with this process."""
    node = layout.node(options.node)
    try:
        plan = read_plan(layout)
        session = max(options.session, session_of_run(layout))
        recovered, unjournaled = read_recovered_state(layout, node, options.node, session)
    except Refusal as error:
        return _unusable(error)
    if recovered.finishes > session:
        _report_end(layout, plan, options.node, handover, session)
        return 0
    with PatientJournalWriter(node.journal) as journal, _errors_named(journal):
        _journal_start(
            journal, plan, options.node, session, adopted=recovered.open or unjournaled is not None
        )
        if unjournaled is not None:
            journal.append(unjournaled.name, **unjournaled.fields)
            recovered = replay(read_journal(node.journal), session)
        if plan.kind == WATCHED:
            from torchdeck.agent.watched.watching_agent import WatchingAgent

            WatchingAgent(layout, plan, options.node, journal).run(recovered)
            return 0
        again = agent_argv(
            sys.executable, Path(__file__).resolve().parents[1], layout.root, options.node, session
        )
        part = None
        if len(plan.all_nodes) > 1:
            from torchdeck.agent.leader.roles import JoinError, join

            try:
                part = join(layout, plan, options.node, journal, handover)
            except JoinError as error:
                return _unusable(error)
        agent = Agent(layout, plan, options.node, journal, again, handover, part, session)
        agent.keep_leases(options.leases)
        agent.run(recovered)
    return 0


def _report_end(layout: RunLayout, plan: LaunchPlan, node: str, handover: Handover, session: int) -> None:
    """Send the alert on the end of the run, if the agent that wrote the end died before it was sent."""
    if plan.alerts is None:
        return
    with PatientJournalWriter(layout.node(node).journal) as journal:
        alerts = alert_watch(layout, plan, node, journal, handover, session)
        if alerts is not None:
            alerts.end()


@contextlib.contextmanager
def _errors_named(journal: PatientJournalWriter) -> Iterator[None]:
    """Journal an error that ends the agent: otherwise only what follows from its end would be seen."""
    try:
        yield
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        sentence = " ".join(f"{type(error).__name__}: {error}".split())[:ERROR_LIMIT]
        journal.append("agent_failed", error=f"{sentence} ({Path(last.filename).name}, line {last.lineno})")
        raise


def _journal_start(
    journal: PatientJournalWriter, plan: LaunchPlan, node: str, session: int, *, adopted: bool
) -> None:
    identity = ProcessIdentity.of(os.getpid())
    role: dict[str, Any] = {}
    if len(plan.all_nodes) > 1:
        role = {"part": "lead" if plan.nodes[0].name == node else "follower"}
    journal.append(
        "agent_started", identity=identity and identity.to_json(), adopted=adopted, life=session, **role
    )


def _unusable(error: Exception) -> int:
    print(error, file=sys.stderr)
    return EXIT_UNUSABLE


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent", description=__doc__)
    parser.add_argument("--run-dir", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument(
        "--life",
        dest="session",
        type=int,
        default=0,
        help="how often the run has finished",
    )
    parser.add_argument(
        "--lease",
        dest="leases",
        type=int,
        action="append",
        default=[],
        help="open descriptor of a held lease",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    set_process_name(PROCESS_NAME)
    os.chdir("/")  # so that no folder of the login stays in use
    sys.exit(main(sys.argv[1:]))
