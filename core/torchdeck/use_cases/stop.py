"""Stop a run: after the step with a checkpoint, or at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal, SeveralRefusals
from torchdeck.launching.control.leaderless_nodes import nodes_alone, seen_alone
from torchdeck.launching.node_stop import NodeStop, ask_to_stop, lives_here, stop_on_nodes, wait_until_gone
from torchdeck.launching.requests import STOP, STOP_NOW, write_request
from torchdeck.launching.taking_over import TOLD_LIMIT, RequestCarrier, take_up
from torchdeck.runs import reasons
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.runs.follower import RunFollower, read_run
from torchdeck.runs.foreign import refuse_stop
from torchdeck.runs.links import UP, Links, LinkState, read_links
from torchdeck.runs.node_troubles import LATE, TroubleKind
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView
from torchdeck.use_cases.elsewhere.job import ask_job
from torchdeck.use_cases.ui import Ui, given_logins, logins_of

if TYPE_CHECKING:
    from torchdeck.launching.requests import Request


POLL = 0.1
AWAY = 15.0
"""Seconds without its link after which a node is not waited for, if nothing is left on the others."""
ALONE_LIMIT = 600.0
"""Seconds after the end of a run for detached ranks to save and end."""


def stop(request: StopRequest, ui: Ui) -> Stopped:
    """Stop a run, also one that was lost or cannot be read.

    Raises:
        Refusal: there is nothing to stop, something may still live, or the request cannot be delivered.
    """
    layout = request.layout
    pending = begin_stop(request, ui)
    if isinstance(pending, Stopped):
        return pending
    try:
        view = RunFollower(layout).refresh()
        pending.look(view)
        if request.wait:
            view = _wait(layout, pending.look, ui, now=request.now)
    except Refusal as error:
        raise Refusal(f"the request cannot be delivered: {error}") from error
    if not request.wait or _was_stopped(layout, view, pending.request_id):
        return Stopped(view)
    what = f"run {view.id} was {view.state} before it took the request" if view.is_over else "it continues"
    return Stopped(view, unstopped=f"nothing was stopped: {what}")


def begin_stop(request: StopRequest, ui: Ui) -> PendingStop | Stopped:
    """Request a stop; a run that was lost or cannot be read is stopped through its remaining files.

    Returns:
        the pending request, whose caller has to see to it that it arrives; Stopped if nothing is pending.

    Raises:
        Refusal: there is nothing to stop, something may still live, or the request cannot be delivered.
    """
    layout = request.layout
    try:
        view = RunFollower(layout).refresh()
    except (Refusal, OSError) as error:
        return stop_unread(request, error, ui)
    refuse_stop(view)
    if view.is_over and view.unfenced and not view.nodes_alone:
        return stop_lost(request, view, ui)
    if view.is_over and not view.processes_alive and not view.nodes_alone:
        raise Refusal(f"run {view.id} is {view.state} already: nothing to stop")
    return request_stop(request, ui)


def _was_stopped(layout: RunLayout, view: RunView, request_id: str) -> bool:
    """Return whether the run ended because of the request, or after accepting it."""
    if not view.is_over:
        return False
    if view.state in (RunState.CANCELLED, RunState.LOST):
        return True
    follower = RunFollower(layout)
    follower.refresh()
    return follower.has_taken(request_id)


def _wait(layout: RunLayout, look: Callable[[RunView], None], ui: Ui, *, now: bool) -> RunView:
    """Until the run is over. The agent's graces and deadlines bound it.

    A leader that is cut off for good never says so: then, until nothing is left where nodes are reached, or
    no node was reached for `TOLD_LIMIT`; or, if it is to end `now`, until its controller gives up the run,
    as it also does if the leader's agent is silent and cannot be replaced.
    After the end of the run, until ranks have ended that continue without the leader, but not for ever.
    """
    follower, alone = RunFollower(layout), _WaitAlone(layout, ui)
    notes = StopNotes(ui.note)
    while now or not _is_left_to_the_away(follower.links):
        view = follower.refresh()
        if view.is_over and not alone.goes_on(follower.links):
            break
        look(view)
        notes.look(view, follower.links)
        if not now and (silent := _silent(layout, follower.links)):
            ui.note(
                f"{silent} did not answer for {TOLD_LIMIT:.0f} s; the stop request is "
                f"delivered once they answer; `torchdeck runs stop --now {view.id}` gives up the run"
            )
            break
        ui.check()
        time.sleep(POLL)
    return follower.refresh()


class _WaitAlone:
    """Wait for nodes whose ranks are detached after the end of their run."""

    def __init__(self, layout: RunLayout, ui: Ui) -> None:
        self._layout = layout
        self._ui = ui
        self._begun: float | None = None
        self._told = 0.0

    def goes_on(self, links: Links | None) -> bool:
        """Return whether some may still receive the stop; print which are no longer waited for."""
        nodes, now = nodes_alone(self._layout), time.monotonic()
        seen = seen_alone(nodes, links, time.time())
        if not nodes:
            return False
        if self._begun is None:
            self._begun = self._told = now
        if seen.living or not seen.untold:
            self._told = now
        if now - self._begun > ALONE_LIMIT:
            named = ", ".join(nodes)
            self._ui.note(f"waited {ALONE_LIMIT:.0f} s for ranks on node {named} to end: they may continue")
            return False
        if now - self._told > TOLD_LIMIT:
            untold = f"node {', '.join(seen.untold)} could not be reached for {TOLD_LIMIT:.0f} s"
            self._ui.note(f"{untold}, so Torchdeck stops waiting: stop the run again when it is back")
            return False
        return True


def _is_left_to_the_away(links: Links | None) -> bool:
    """Return whether reachable nodes have no live process, and the others are unreachable for long."""
    if links is None or not links.is_fresh(time.time()):
        return False
    reached = [state for state in links.nodes.values() if state.state == UP]
    lives = any(state.agent_alive is not False or state.holder_alive for state in reached)
    away = away_nodes(links)
    return bool(reached and away) and not lives and all(time.time() - state.since > AWAY for state in away)


def _silent(layout: RunLayout, links: Links | None) -> str:
    """Return the nodes of the run if none of them was reached for `TOLD_LIMIT`; else nothing."""
    now = time.time()
    if links is None or not links.nodes or not links.is_fresh(now) or layout.node(LOCALHOST).root.is_dir():
        return ""
    silent = all(state.state != UP and now - state.since > TOLD_LIMIT for state in links.nodes.values())
    return ", ".join(links.nodes) if silent else ""


def away_nodes(links: Links) -> list[LinkState]:
    """Nodes that are not reached."""
    return [state for state in links.nodes.values() if state.state != UP]


# Progress messages of `torchdeck runs stop`.

AFTER = 2.0
"""Seconds before anything is printed: most runs stop sooner."""


class StopNotes:
    """Prints each new thing that the stop waits for."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._due = clock() + AFTER
        self._said = ""

    def look(self, view: RunView, links: Links | None) -> None:
        """Update; called repeatedly while the run is waited for."""
        text = waits_for(view, links, time.time())
        if text != self._said and self._clock() >= self._due:
            self._said = text
            self._say(text)


def waits_for(view: RunView, links: Links | None, now: float) -> str:
    """Describe what a stop of the run waits for; `now` in unix seconds."""
    if view.is_over:
        nodes = ", ".join(view.nodes_alone)
        return f"waiting for ranks to end on {nodes}, which continue without the leading node"
    if view.job:
        return f"waiting for job {view.job} to save and end"
    if not view.controller_alive:
        return "waiting for a controller of the run to start"
    fresh = {} if links is None or not links.is_fresh(now) else links.nodes
    away = [f"{state.node} ({state.why or state.state})" for state in fresh.values() if state.state != UP]
    what = view.why if view.state is RunState.STOPPING else "it has not taken the request yet"
    silent = [each for each in view.troubles if each.what is TroubleKind.AGENT and each.state == LATE]
    what = "; ".join([what, *(reasons.unanswered(each.node, each.since) for each in silent)])
    unreached = f"; not reached: {', '.join(away)}" if away else ""
    return f"waiting for the run to end: {what}{unreached}"


# Stop a run whose journals cannot be read: by its processes, here and on its nodes.

LIMIT = 600.0
"""Seconds for ranks to save and end."""
HERE = "this machine"


def stop_unread(request: StopRequest, error: object, ui: Ui) -> Stopped:
    """Stop the run. Raises Refusal if no process was alive, or one may still be."""
    layout, run_id = request.layout, request.layout.root.name
    ui.note(f"the state of run {run_id} cannot be read: {error}")
    lived = lives_here(layout)
    try:
        written = ask_to_stop(layout, STOP_NOW if request.now else STOP, request.origin)
    except OSError as unwritten:
        raise Refusal(f"the request cannot be delivered: {unwritten}") from unwritten
    limit = LIMIT if request.wait else 0.0
    stops = (*_on_nodes(layout, written, limit, ui), *_here(layout, limit, ui, lived=lived))
    asked = ", ".join(stop.node for stop in stops if stop.lived)
    left = [stop for stop in stops if stop.why and not (stop.lived and not request.wait)]
    if left:
        raise SeveralRefusals(
            [Refusal(f"processes of run {run_id} may be alive on {stop.node}: {stop.why}") for stop in left]
        )
    if not asked:
        raise Refusal(f"no process of run {run_id} is alive on {', '.join(stop.node for stop in stops)}")
    said = f"was stopped: no process is alive on {asked}" if request.wait else f"was asked to stop on {asked}"
    return Stopped(None, said, f"run {run_id} {said}")


def _here(layout: RunLayout, limit: float, ui: Ui, *, lived: bool) -> tuple[NodeStop, ...]:
    if lived and limit:
        ui.note(f"{HERE}: waiting for the run to end there")
    gone = not lived or wait_until_gone(layout, limit)
    return (NodeStop(HERE, lived, "" if gone else f"processes are alive {limit:.0f} s after the request"),)


def _on_nodes(layout: RunLayout, request: Request, limit: float, ui: Ui) -> tuple[NodeStop, ...]:
    # without a readable plan, use nodes that have sent something
    sent = (path.name for path in layout.nodes.glob("*") if path.name != LOCALHOST)
    names = remote_nodes(layout) or tuple(sorted(sent))
    if not names:
        return ()
    connector = ui.connector(layout.home.root)
    return stop_on_nodes(layout.root.name, names, request, connector, limit, ui.note)


# Stop a lost run: what may still live on nodes that did not answer.

REACH_LIMIT = 15.0
"""Seconds for a node to answer."""
END_LIMIT = 60.0
"""Seconds for processes on a node that answers: its agent ends them at once."""
LOST_POLL = 0.2


def stop_lost(request: StopRequest, view: RunView, ui: Ui) -> Stopped:
    """Start the run's controller, which ends what is left. Raises Refusal if a process may still be alive."""
    lost, over = ", ".join(view.unfenced), f"run {view.id} is {view.state} already"
    ui.note(f"{over}; waiting for {lost}, where it may still run")
    try:
        left = _wait_for_nodes(request, ui)
    except Refusal as error:
        raise Refusal(f"{over}; {error}") from error
    if left and request.wait:
        later = "leave this machine on until it answers, which ends the run there; or stop the run again then"
        raise Refusal(f"{over}; {_unanswered(left, read_links(request.layout))}", fix=later)
    said = f"no process of it is alive on {lost}"
    if left:
        said = f"anything still running on {', '.join(left)} is ended when it answers"
    return Stopped(None, said, f"{over}; {said}")


def _wait_for_nodes(request: StopRequest, ui: Ui) -> tuple[str, ...]:
    """Wait until the lost nodes have reported that nothing of the run lives there; return those that have
    not.
    """
    layout = request.layout
    # a controller cannot ask for the password of a node
    started = take_up(layout, logins_of(layout, ui)) if request.ask else None
    given = given_logins(layout, ui) if request.ask else dict
    follower, carrier, begun = RunFollower(layout), RequestCarrier(layout, given, started), time.monotonic()
    while (view := follower.refresh()).unfenced:
        carrier.look(view)
        waited = time.monotonic() - begun
        away = [_away(node, follower.links, waited) for node in view.unfenced]
        if not request.wait or min(away) > REACH_LIMIT or waited > END_LIMIT:
            break
        ui.check()
        time.sleep(LOST_POLL)
    if carrier.started is not None:
        ui.adopt(carrier.started)
    return view.unfenced


def _unanswered(nodes: tuple[str, ...], links: Links | None) -> str:
    known = {} if links is None else links.nodes
    reasons = {node: f" ({state.why or state.state})" for node, state in known.items()}
    return ", ".join(f"{node} does not answer{reasons.get(node, '')}" for node in nodes)


def _away(node: str, links: Links | None, waited: float) -> float:
    """Return for how many seconds a node has not answered, as far as is known; 0 while it does."""
    now = time.time()
    state = None if links is None or not links.is_fresh(now) else links.nodes.get(node)
    if state is None:
        return waited
    return 0.0 if state.state == UP else max(waited, now - state.since)


# Asking a run to stop, and seeing to it that the request arrives.


@dataclass(frozen=True)
class StopRequest:
    """Request to stop a run."""

    layout: RunLayout
    origin: str
    """Origin of the request: `terminal`, `window`, `api`."""
    now: bool = False
    """End every process; else the step is finished and saved."""
    wait: bool = True
    """Return when the run is over."""
    ask: bool = True
    """Ask for logins if a controller has to be started; else it does without."""


@dataclass(frozen=True)
class Stopped:
    """Result of a stop request."""

    view: RunView | None
    """The run afterwards; None if it could not be read, or was over before: then `said` says it all."""
    said: str = ""
    sentence: str = ""
    """`said` with the run it is about."""
    unstopped: str = ""
    """Why nothing was stopped; empty if the run was, or is going to be."""


class PendingStop:
    """A request that is written: whoever asked looks at it again and again until an agent has it.

    Args:
        layout: of the run.
        request_id: of the request.
        kind: `stop` or `stop_now`.
        carrier: starts a controller if there is none to forward the request.
    """

    def __init__(self, layout: RunLayout, request_id: str, kind: str, carrier: RequestCarrier) -> None:
        self.layout = layout
        self.request_id = request_id
        self.kind = kind
        self._carrier = carrier

    def look(self, view: RunView) -> None:
        """See to it that the request arrives. Raises Refusal."""
        self._carrier.look(view)


def request_stop(request: StopRequest, ui: Ui) -> PendingStop:
    """Ask a run to stop, and do not wait for it.

    Raises:
        Refusal: the request cannot be written, or no controller can be started.
    """
    layout, started = request.layout, None
    if (view := read_run(layout)).job:
        ask_job(layout, view, now=request.now)
        return PendingStop(layout, "", STOP, RequestCarrier(layout))
    if request.ask and remote_nodes(layout):
        # first, as it may be refused or cancelled: a request that is there already would be forwarded by
        # whatever controller comes next
        started = take_up(layout, logins_of(layout, ui))
        if started is not None:
            ui.adopt(started)
    kind = STOP_NOW if request.now else STOP
    try:
        written = write_request(layout, kind, request.origin)
    except OSError as error:
        raise Refusal(f"the request cannot be delivered: {error}") from error
    given = given_logins(layout, ui) if request.ask else dict
    return PendingStop(layout, written.id, kind, RequestCarrier(layout, given, started))
