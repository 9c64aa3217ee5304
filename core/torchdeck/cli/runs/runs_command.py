"""`torchdeck runs`: the runs of this home."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import reports_refusals as reports_refusals_of_nodes
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.refusals import refuse, report
from torchdeck.cli.run_source import split_at_dashes
from torchdeck.cli.runs import diff as runs_diff
from torchdeck.cli.runs import edit as runs_edit
from torchdeck.cli.runs import listing as runs_list
from torchdeck.cli.runs import logs as runs_logs
from torchdeck.cli.runs import metrics
from torchdeck.cli.runs import profile as runs_profile
from torchdeck.cli.runs import pull as runs_pull
from torchdeck.cli.runs import report as runs_report
from torchdeck.cli.runs import show as runs_show
from torchdeck.cli.runs import stacks as runs_stacks
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.cli.runs.fencing import keep_fencing
from torchdeck.cli.runs.opening import editor as runs_editor
from torchdeck.cli.runs.opening import files as runs_files
from torchdeck.cli.runs.opening import shell as runs_shell
from torchdeck.cli.runs.removal import delete as runs_delete
from torchdeck.cli.runs.removal import space as runs_space
from torchdeck.cli.runs.removal import trash as runs_trash
from torchdeck.cli.runs.start import start_and_watch, watch_run
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.follower import read_run
from torchdeck.runs.links import read_links
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.view import RunView

if TYPE_CHECKING:
    from torchdeck.use_cases.stop import Stopped


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its commands to the command line."""
    parser = subparsers.add_parser(
        "runs",
        help="list, show, attach, stop, resume, clone, pull, edit, delete, space, report, diff, open …",
        description="The runs of this Torchdeck home. ID is a run's id, a unique prefix of it, its name, or "
        "`latest`.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    runs_list.add_parser(commands)
    runs_show.add_parser(commands)
    runs_logs.add_parser(commands)
    metrics.add_parser(commands)
    runs_stacks.add_parser(commands)
    runs_profile.add_parser(commands)
    add_parsers(commands)
    runs_pull.add_parser(commands)
    runs_edit.add_parser(commands)
    runs_delete.add_parser(commands)
    runs_trash.add_parser(commands)
    runs_space.add_parser(commands)
    runs_report.add_parser(commands)
    runs_diff.add_parser(commands)
    runs_editor.add_parser(commands)
    runs_shell.add_parser(commands)
    runs_files.add_parser(commands)


# `torchdeck runs attach`, `stop` and `resume`.

ORIGIN = "terminal"


def add_parsers(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    attached = commands.add_parser(
        "attach",
        help="watch a run again, from its first line; Ctrl-C detaches",
        description="Watch a run again, from its first line. Ctrl-C detaches, and the run continues. Ctrl-\\ "
        "stops the run: once after the step with a checkpoint, twice at once.",
    )
    attached.set_defaults(handler=attach)
    attached.add_argument(
        "--node",
        metavar="NODE",
        help="adopt a run that another machine started, from this one of its nodes",
    )
    stopped = commands.add_parser("stop", help="finish the step, save, exit; returns when the run is over")
    stopped.add_argument("--now", action="store_true", help="end every process of the run")
    stopped.add_argument("--no-wait", action="store_true", help="return as soon as the request is written")
    stopped.set_defaults(handler=stop)
    resumed = commands.add_parser(
        "resume",
        help="continue from the newest complete checkpoint",
        usage="torchdeck runs resume [-h] [--detach] [--nodes NODE [NODE ...]] [--json] ID [-- ARGUMENTS]",
        description="Continue from the newest complete checkpoint. ARGUMENTS are those with which a script "
        "continues, if it is not a known trainer; @{checkpoint} in them stands for the checkpoint's path.",
    )
    resumed.add_argument(
        "--detach", action="store_true", help="print the run's id and return; the run continues"
    )
    resumed.add_argument(
        "--nodes",
        nargs="+",
        metavar="NODE",
        help="start a new run on these nodes from the newest checkpoint, which they must be able to read",
    )
    resumed.set_defaults(handler=resume)
    cloned = commands.add_parser(
        "clone",
        help="start a new run with the run file of this one",
        usage="torchdeck runs clone [-h] [--set KEY=VALUE] [--detach] [--json] ID [-- ARGUMENTS]",
        description="Start a new run with the run file of this one, from the beginning. ARGUMENTS are "
        "appended to those of its script.",
    )
    cloned.add_argument("--set", action="append", metavar="KEY=VALUE", default=[], help="override a key")
    cloned.add_argument("--detach", action="store_true", help="print the run's id and return")
    cloned.set_defaults(handler=clone)
    for parser in (resumed, cloned):
        parser.set_defaults(script_args=[])
        split_at_dashes(parser)
    for parser in (attached, stopped, resumed, cloned):
        parser.add_argument("id", metavar="ID", help=ID_HELP)
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")


@reports_refusals
def attach(args: argparse.Namespace) -> int:
    """Watch the run; start a controller if it has none or not all nodes are followed. Return the run's exit
    code.
    """
    from torchdeck.use_cases.attach import attach as attach_run

    if args.node is not None:
        return _attach_elsewhere(args)
    layout = find_run(args.id, active=True)
    with FrontEndSignals(attached=True) as signals:
        try:
            controller = attach_run(layout, TerminalUi())
        except Refusal as error:
            return report(error, as_json=args.json)
        return watch_run(layout, controller, signals, as_json=args.json)


@reports_refusals_of_nodes
def _attach_elsewhere(args: argparse.Namespace) -> int:
    """Make the directory here of a run that another machine has started, and watch it."""
    from torchdeck.cli.nodes.command_errors import nodes_home
    from torchdeck.use_cases.attach import attach_elsewhere
    from torchdeck.use_cases.nodes.chosen import NodesUsageError, choose_nodes

    home = nodes_home()
    chosen = choose_nodes([args.node], home, TerminalUi())
    if len(chosen.entries) != 1:
        raise NodesUsageError(f"{args.node} is more than one node", fix="--node names one")
    try:
        found = attach_elsewhere(next(iter(chosen.entries)), args.id, home, TerminalUi())
    except Refusal as error:
        if error.is_usage:
            raise
        return report(error, as_json=args.json)
    with FrontEndSignals(attached=True) as signals:
        return watch_run(found.layout, found.controller, signals, as_json=args.json)


@reports_refusals
def stop(args: argparse.Namespace) -> int:
    """Request a stop; 0 once the run has stopped, and 3 if nothing was stopped."""
    from torchdeck.use_cases.stop import StopRequest
    from torchdeck.use_cases.stop import stop as stop_run

    request = StopRequest(find_run(args.id, active=True), ORIGIN, now=args.now, wait=not args.no_wait)
    _say_what_is_lost(request.layout, now=args.now)
    try:
        stopped = stop_run(request, TerminalUi())
    except Refusal as error:
        return refuse([str(part) for part in error.parts()], as_json=args.json)
    return _say_stopped(request.layout, stopped, as_json=args.json)


def _say_what_is_lost(layout: RunLayout, *, now: bool) -> None:
    """Tell of steps that no checkpoint has; a stop does not depend on it."""
    from torchdeck.runs.training_progress import ProgressReader
    from torchdeck.runs.unsaved import lost_at_stop, unsaved_steps, what_is_lost

    try:
        view = read_run(layout)
        progress = ProgressReader(layout).read(view)
    except (Refusal, OSError):
        return
    lost = lost_at_stop(view, progress)
    if now and unsaved_steps(view, progress):
        lost = what_is_lost(view, progress)
        lost = f"{lost[:1].upper()}{lost[1:]}."
    if lost:
        print(f"torchdeck: {lost}", file=sys.stderr)


def _say_stopped(layout: RunLayout, stopped: Stopped, *, as_json: bool) -> int:
    if stopped.view is None:
        print(json_text({"id": layout.root.name, "why": stopped.said}) if as_json else stopped.sentence)
        return SUCCEEDED
    _say(layout, stopped.view, as_json=as_json)
    if stopped.unstopped:
        print(f"torchdeck: {stopped.unstopped}", file=sys.stderr)
        return REFUSED
    return SUCCEEDED


def _say(layout: RunLayout, view: RunView, *, as_json: bool) -> None:
    if as_json:
        print(json_text(view.to_json()))
    elif view.may_have_audit:
        from torchdeck.runs.audit.audit import audit_run

        print("\n".join(summary_lines(view, audit=audit_run(layout, view))))
    elif view.is_over:
        print("\n".join(summary_lines(view)))
    else:
        print(f"run {view.id} was asked to stop; it is {view.state}")
        from torchdeck.use_cases.stop import away_nodes

        links = read_links(layout)
        for state in [] if links is None else away_nodes(links):
            print(f"node {state.node} cannot be reached, and gets the request when it answers: {state.why}")


@reports_refusals
def resume(args: argparse.Namespace) -> int:
    """Continue a run that is over and watch it; 3 when it cannot be resumed."""
    from torchdeck.use_cases.resume import resume as resume_run

    layout = find_run(args.id)
    before = max(layout.attempt_numbers(), default=0)
    if args.nodes is not None:
        if args.script_args:
            return report(Refusal("--nodes and arguments exclude each other"), as_json=args.json)
        return _resume_elsewhere(layout, args)
    with FrontEndSignals() as signals:
        try:
            controller = resume_run(layout, ORIGIN, TerminalUi(), args.script_args)
        except Refusal as error:
            return report(error, as_json=args.json)
        if args.detach:
            print(json_text({"id": layout.root.name}) if args.json else layout.root.name)
            return SUCCEEDED
        return watch_run(layout, controller, signals, as_json=args.json, after_attempt=before)


@reports_refusals
def clone(args: argparse.Namespace) -> int:
    """Start a new run with the run file of one, and watch it."""
    from torchdeck.use_cases.resume import cloned

    try:
        request = cloned(find_run(args.id), args.set, args.script_args)
    except Refusal as error:
        return report(error, as_json=args.json)
    return start_and_watch(request, detach=args.detach, as_json=args.json)


def _resume_elsewhere(layout: RunLayout, args: argparse.Namespace) -> int:
    """Start a new run on other nodes from the newest checkpoint, and watch it."""
    from torchdeck.use_cases.resume import resumed_elsewhere

    view = read_run(layout)
    try:
        request = resumed_elsewhere(layout, view, args.nodes)
    except Refusal as error:
        return report(error, as_json=args.json)
    keep_fencing(layout, view)
    return start_and_watch(request, detach=args.detach, as_json=args.json)
