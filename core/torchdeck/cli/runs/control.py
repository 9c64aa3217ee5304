"""`torchdeck runs attach`, `stop` and `resume`."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from torchdeck.cli.exit_codes import REFUSED, SUCCEEDED
from torchdeck.cli.json_text import json_text
from torchdeck.cli.nodes.connector import logins_of
from torchdeck.cli.refusals import print_pages, refuse, report
from torchdeck.cli.runs.lookup import ID_HELP, find_run, says_what_is_wrong
from torchdeck.cli.runs.start import watch_run
from torchdeck.cli.runs.stop_lost import stop_lost
from torchdeck.cli.runs.stop_notes import StopNotes
from torchdeck.cli.runs.stop_unread import stop_unread
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.links import UP, Links, LinkState, read_links
from torchdeck.runs.state import RunState
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.view import RunView

if TYPE_CHECKING:
    from torchdeck.launching.taking_over import RequestCarrier

POLL = 0.1
AWAY = 15.0
"""Seconds without its link after which a node is not waited for, where nothing is left on the others."""
ALONE_LIMIT = 600.0
"""Seconds after the end of a run for ranks to save and end that go on without the leader."""


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
    resumed = commands.add_parser("resume", help="continue from the newest complete checkpoint")
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
    for parser in (attached, stopped, resumed):
        parser.add_argument("id", metavar="ID", help=ID_HELP)
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")


@says_what_is_wrong
def attach(args: argparse.Namespace) -> int:
    """Watch; a run that nobody follows, or not all of it, gets a controller. The exit code is the run's."""
    from torchdeck.launching.taking_over import take_up

    if args.node is not None:
        from torchdeck.cli.runs.attach import attach_elsewhere

        return attach_elsewhere(args)
    layout = find_run(args.id)
    with FrontEndSignals(attached=True) as signals:
        try:
            controller = take_up(layout, partial(logins_of, layout))
        except Refusal as error:
            return report(error, as_json=args.json)
        return watch_run(layout, controller, signals, as_json=args.json)


@says_what_is_wrong
def stop(args: argparse.Namespace) -> int:
    """Ask the run to stop; 0 once it has stopped, and 3 if nothing was stopped."""
    from torchdeck.launching.requests import STOP, STOP_NOW, write_request
    from torchdeck.launching.taking_over import RequestCarrier

    layout = find_run(args.id)
    try:
        view = RunFollower(layout).refresh()
    except (Refusal, OSError) as error:
        return stop_unread(layout, args, error)
    if view.is_over and view.unfenced and not view.nodes_alone:
        return stop_lost(layout, view, args)
    if view.is_over and not view.processes_alive and not view.nodes_alone:
        return refuse([f"run {view.id} is {view.state} already: there is nothing to stop"], as_json=args.json)
    try:
        request = write_request(layout, STOP_NOW if args.now else STOP, "terminal")
        carrier = RequestCarrier(layout)
        carrier.look(view)
        if not args.no_wait:
            view = _wait(layout, carrier, now=args.now)
    except (OSError, Refusal) as error:
        return refuse([f"the request cannot be handed over: {error}"], as_json=args.json)
    _say(layout, view, as_json=args.json)
    if args.no_wait or _was_stopped(layout, view, request.id):
        return SUCCEEDED
    what = f"run {view.id} was {view.state} before it took the request" if view.is_over else "it goes on"
    _note(f"nothing was stopped: {what}")
    return REFUSED


def _was_stopped(layout: RunLayout, view: RunView, request_id: str) -> bool:
    """Whether the run ended because of the request, or after it took it."""
    if not view.is_over:
        return False
    if view.state in (RunState.CANCELLED, RunState.LOST):
        return True
    follower = RunFollower(layout)
    follower.refresh()
    return follower.has_taken(request_id)


def _wait(layout: RunLayout, carrier: RequestCarrier, *, now: bool = False) -> RunView:
    """Until the run is over. The agent's graces and deadlines bound it; Ctrl-C only ends the waiting.

    A leader that is cut away for good never says so: then, until nothing is left where nodes are reached; or,
    if it is to end `now`, until its controller gives the run up. After the end of the run, until ranks have
    ended that go on without the leader, but not for ever.
    """
    follower, alone, notes = RunFollower(layout), _WaitAlone(layout), StopNotes(_note)
    while now or not _is_left_to_the_away(follower.links):
        view = follower.refresh()
        if view.is_over and not alone.goes_on(follower.links):
            break
        carrier.look(view)
        notes.look(view, follower.links)
        time.sleep(POLL)
    return follower.refresh()


class _WaitAlone:
    """Waiting for nodes whose ranks go on after the end of their run."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._begun: float | None = None
        self._told = 0.0

    def goes_on(self, links: Links | None) -> bool:
        """Whether there are some that may still hear of the stop; says which are waited for no longer."""
        from torchdeck.launching.leader.nodes_alone import nodes_alone, seen_alone
        from torchdeck.launching.taking_over import TOLD_LIMIT

        nodes, now = nodes_alone(self._layout), time.monotonic()
        seen = seen_alone(nodes, links, time.time())
        if not nodes:
            return False
        if self._begun is None:
            self._begun = self._told = now
        if seen.living or not seen.untold:
            self._told = now
        if now - self._begun > ALONE_LIMIT:
            _note(f"waited {ALONE_LIMIT:.0f} s for ranks on node {', '.join(nodes)} to end: they may go on")
            return False
        if now - self._told > TOLD_LIMIT:
            untold = f"node {', '.join(seen.untold)} was not reached for {TOLD_LIMIT:.0f} s"
            _note(f"{untold}, and is waited for no longer: stop the run again when it is back")
            return False
        return True


def _note(text: str) -> None:
    print(f"torchdeck: {text}", file=sys.stderr)


def _is_left_to_the_away(links: Links | None) -> bool:
    """Whether nothing lives where nodes are reached, and the others have not been for a while."""
    if links is None or not links.is_fresh(time.time()):
        return False
    reached = [state for state in links.nodes.values() if state.state == UP]
    lives = any(state.agent_alive is not False or state.holder_alive for state in reached)
    away = _away(links)
    return bool(reached and away) and not lives and all(time.time() - state.since > AWAY for state in away)


def _away(links: Links) -> list[LinkState]:
    return [state for state in links.nodes.values() if state.state != UP]


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
        links = read_links(layout)
        for state in [] if links is None else _away(links):
            print(f"node {state.node} is not reached, and hears of it when it is: {state.why}")


@says_what_is_wrong
def resume(args: argparse.Namespace) -> int:
    """Begin another life of a run that is over and watch it; 3 when it cannot be resumed."""
    from torchdeck.launching.taking_over import resume as begin_again

    if args.nodes is not None:
        from torchdeck.cli.runs.resume_elsewhere import resume_elsewhere

        return resume_elsewhere(args)
    layout = find_run(args.id)
    with FrontEndSignals() as signals:
        try:
            controller = begin_again(layout, "terminal", partial(logins_of, layout), _note)
        except Refusal as error:
            if not args.json:
                print_pages(error)
            return refuse([str(error)], as_json=args.json)
        except OSError as error:
            return refuse(
                [f"{layout.root} cannot be read or written: {error.strerror or error}"], as_json=args.json
            )
        if args.detach:
            print(json_text({"id": layout.root.name}) if args.json else layout.root.name)
            return SUCCEEDED
        return watch_run(layout, controller, signals, as_json=args.json)
