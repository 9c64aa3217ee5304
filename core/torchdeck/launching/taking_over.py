"""Takes over a run: starts a controller if it has none, and another session after its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from torchdeck.agent.attempt.script_resume import (
    SCRIPTS,
    continued,
    how_it_continues,
)
from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.contract.atomic import read_json
from torchdeck.contract.free_space import low_disk
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import JournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.lock_file import locked
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.control.leaderless_nodes import nodes_alone, seen_alone
from torchdeck.launching.control.run_secrets import MissingSecretError, run_secrets
from torchdeck.launching.gate import Gate, NotTrustedError
from torchdeck.launching.launcher import LaunchError, start_controller
from torchdeck.launching.requests import asked_arguments
from torchdeck.runs.follower import RunFollower, read_run
from torchdeck.runs.foreign import how_again, why_no_start
from torchdeck.runs.links import Links
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView
from torchdeck.trainers.checkpoints.journaled import journaled_checkpoints
from torchdeck.trainers.resume import UnknownResumeError

CARRY_DELAY = 3.0
"""Seconds for a started controller to appear before another one is started."""
QUIET_LIMIT = 10.0
"""Seconds within which the processes of a finished run exit."""
QUIET_SAID = 1.0
TOLD_LIMIT = 30.0
"""Seconds for a node whose ranks continued detached to be reached and report whether they still do."""


class NotResumableError(Refusal):
    """The run cannot be resumed; the message gives the reason and a remedy."""

    page = "checkpoints#resume"


class LacksSecretsError(NotResumableError):
    """Secrets of the run have no value.

    Attributes:
        names: their names.
    """

    def __init__(self, error: MissingSecretError) -> None:
        super().__init__(error.what, fix=error.fix, page=error.page)
        self.names = error.names


Logins = Callable[[], Mapping[str, Any]]
"""Requests the logins that the nodes of a run need, as returned by `Credentials.to_json`."""


def ensure_controller(layout: RunLayout, logins: Logins = dict) -> DetachedProcess | None:
    """Start a controller if the run needs one and has none; otherwise return None.

    Args:
        layout: the run.
        logins: called if one is started.

    Raises:
        LaunchError: it cannot be started.
        NewerFormatError: the run is from a newer Torchdeck.
    """
    found = read_run(layout)
    if found.controller_alive or not found.needs_controller:
        return None
    return start_controller(layout, first=False, logins=logins())  # the agents have the secrets


def take_up(layout: RunLayout, logins: Logins = dict) -> DetachedProcess | None:
    """Like `ensure_controller`; also start one with the logins if the current controller lacks some.

    Before the first attempt no process takes a run from its controller: it alone can start the gang's agents.
    """
    follower = RunFollower(layout)
    found = follower.refresh()
    if not wants_controller(found, follower.links, time.time()):
        return None
    return start_controller(layout, first=False, logins=logins())


def wants_controller(found: RunView, links: Links | None, now: float) -> bool:
    """Return whether a run that needs a controller is not followed, or only in part; `now` in unix
    seconds.
    """
    if not found.needs_controller or not found.controller_alive:
        return found.needs_controller
    return found.attempt is not None and links is not None and links.lacks_login(now)


class RequestCarrier:
    """Ensures that a request arrives: a controller may die between its writing and its forwarding.

    Args:
        layout: the run.
        logins: for a controller that is started.
        started: a controller that is already starting.
    """

    def __init__(
        self, layout: RunLayout, logins: Logins = dict, started: DetachedProcess | None = None
    ) -> None:
        self._layout = layout
        self._logins = logins
        self._due = 0.0 if started is None else time.monotonic() + CARRY_DELAY
        self.started = started
        """The controller that it started last."""
        self._tried = False
        """A controller was started for nodes that continue after the end of the run."""

    def look(self, found: RunView) -> None:
        """Start a controller if `found` needs one and has none.

        Raises:
            LaunchError: it cannot be started, or has given up the nodes that continue after the end of the
                run.
        """
        if self.started is not None:
            self.started.exit_code()  # reaps it, so that it does not appear alive
        alone = (*found.nodes_alone, *found.unfenced) if found.is_over else ()
        if found.controller_alive or not found.needs_controller:
            self._due = time.monotonic() + CARRY_DELAY
        elif time.monotonic() >= self._due:
            if alone and self._tried:
                names = ", ".join(alone)
                raise LaunchError(f"node {names} did not answer in time", fix="try again when it is back")
            self._tried = bool(alone)
            self._due = time.monotonic() + CARRY_DELAY
            self.started = ensure_controller(self._layout, self._logins)


def resume(
    layout: RunLayout,
    origin: str,
    logins: Logins = dict,
    say: Callable[[str], None] = lambda _text: None,
    arguments: Sequence[str] = (),
    secrets: Mapping[str, str] | None = None,
) -> DetachedProcess:
    """Begin another session of a finished run: a new attempt from the newest complete checkpoint.

    Args:
        layout: the run.
        origin: origin of the request: `terminal`, `api`.
        logins: called before it begins.
        say: called with what is being waited for.
        arguments: with which a script continues; empty: as known.
        secrets: values of [run] secrets that are not in the environment.

    Raises:
        NotResumableError: it is still running (possibly detached on a node), it has succeeded, there is no
            checkpoint to resume from, or its code is not trusted (any more).
        LacksSecretsError: a secret has no value.
        UnknownResumeError: it is not known how its script continues from a checkpoint.
        LaunchError: its remaining processes do not exit, or no controller can be started.
        NewerFormatError: it is from a newer Torchdeck.
    """
    asked = cache(logins)
    _check(layout, read_run(layout))
    _check_room(layout)
    _check_trust(layout)
    _check_secrets(layout, secrets or {})
    _check_alone(layout, asked, say)
    _check_script(layout, arguments)
    _wait_until_quiet(layout, say)
    given = asked()
    with locked(layout.controller_lock):  # controllers' actions wait for this one
        found = read_run(layout)
        _check(layout, found)
        if not found.end_written:
            _write_end(layout, found)
            found = read_run(layout)
        _forget_requests(layout)
        with JournalWriter(layout.journal) as journal:
            told: dict[str, Any] = {"arguments": list(arguments)} if arguments else {}
            journal.append("resumed", finished=found.finishes, origin=origin, **told)
    return start_controller(layout, secrets=secrets, logins=given)


def _check(layout: RunLayout, found: RunView) -> None:
    if why := why_no_start(found):
        raise NotResumableError(why, fix=how_again(found))
    if not found.is_over:
        raise NotResumableError(
            f"run {found.id} is {found.state}", fix=f"`torchdeck runs attach {found.id}` shows it"
        )
    if found.state is RunState.SUCCEEDED:
        raise NotResumableError(f"run {found.id} has SUCCEEDED: nothing is left to do")
    if not found.resumable and not _has_checkpoint(layout, found):
        from torchdeck.runs.folders.checkpoints import unnoticed_checkpoint  # it imports numpy

        if (path := unnoticed_checkpoint(layout)) is not None:
            raise NotResumableError(
                f"run {found.id} ({found.state}) ended before its agent noticed {path}",
                fix=f"if this run saved it, `torchdeck runs clone {found.id} --set checkpoint.resume={path}` "
                "continues from it",
            )
        raise NotResumableError(
            f"run {found.id} ({found.state}) has no checkpoint to resume from",
            fix=f"start it again{_start_again(found)}",
        )


def _check_script(layout: RunLayout, arguments: Sequence[str]) -> None:
    """Check that it is known how a script continues from its checkpoint."""
    plan = _plan(layout)
    if plan.kind not in SCRIPTS:
        if arguments:
            raise NotResumableError("a recipe takes no arguments", fix="resume it without them")
        return
    if [node.name for node in plan.nodes] != [LOCALHOST]:
        if arguments or asked_arguments(layout):
            return
        first = plan.nodes[0].name  # which checkpoint is there on all nodes, they find out together
        known = journaled_checkpoints(read_journal(layout.node(first).journal)).values()
        newest = max(known, key=lambda saved: saved.changed, default=None)
        if newest is not None and how_it_continues(plan, first, newest.kind) is None:
            raise UnknownResumeError(layout.root.name, plan.target)
        return
    how = continued(layout, plan, 2, arguments or asked_arguments(layout))
    if how.is_another_runs:
        raise NotResumableError(how.from_scratch)
    if how.from_scratch:
        raise UnknownResumeError(layout.root.name, plan.target)


def _start_again(found: RunView) -> str:
    return f" with torchdeck --no-gui {found.source}" if found.source else ""


def _check_room(layout: RunLayout) -> None:
    """Check for free space: too little would end the next session before its first step."""
    low = low_disk(layout.root, layout.root, _plan(layout).policy.min_free_bytes, 0)
    if low is not None:
        raise NotResumableError(low.text, "limits.min_free_disk", "make room, then resume")


def _check_trust(layout: RunLayout) -> None:
    """Check trust again: code trusted at the start may have changed."""
    if held := Gate(layout.home.root).held_again(_plan(layout)):
        raise NotResumableError(held[0].what, fix=held[0].fix, page=NotTrustedError.page)


def _check_secrets(layout: RunLayout, secrets: Mapping[str, str]) -> None:
    """Check that each secret has a value here: the first controller of a session must have them all."""
    try:
        run_secrets(layout, {**os.environ, **secrets}, required=True)
    except MissingSecretError as error:
        raise LacksSecretsError(error) from error


def _plan(layout: RunLayout) -> LaunchPlan:
    try:
        return LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError as error:
        raise NotResumableError(f"run {layout.root.name} cannot be resumed: {error}") from error


def _has_checkpoint(layout: RunLayout, found: RunView) -> bool:
    """Return whether there is a checkpoint. A run without a journaled end may have saved after the last
    event: only the folder knows.
    """
    if found.state is not RunState.LOST:
        return False
    from torchdeck.contract.checkpoints.listing import newest_complete

    plan = _plan(layout)
    values = {"run_id": found.id, "run_dir": str(layout.root)}
    return newest_complete(Path(fill(plan.checkpoint.directory, values))) is not None


def _check_alone(layout: RunLayout, logins: Logins, say: Callable[[str], None]) -> None:
    """Refuse while ranks continue, or may continue, without their leader.

    They know nothing of another session, and would write to the same files.
    """
    if not (nodes := nodes_alone(layout)):
        return
    say(f"waiting for {', '.join(nodes)} to report whether ranks still run there, {TOLD_LIMIT:.0f} s at most")
    carrier, follower = RequestCarrier(layout, logins), RunFollower(layout)
    limit = time.monotonic() + TOLD_LIMIT
    while nodes := nodes_alone(layout):
        carrier.look(follower.refresh())
        alone = seen_alone(nodes, follower.links, time.time())
        if alone.living:
            raise NotResumableError(
                f"run {layout.root.name} continues without its leader on {', '.join(alone.living)}, as "
                'launch.unattended = "continue" asks',
                fix="wait for the end of these ranks, or end them with "
                f"`torchdeck runs stop {layout.root.name}`; then resume",
            )
        if not alone.untold:
            return
        if time.monotonic() > limit:
            raise NotResumableError(_untold(layout, alone.untold))
        time.sleep(0.05)


def _untold(layout: RunLayout, nodes: tuple[str, ...]) -> str:
    """Return why no session can begin next to them: a session begins with all nodes, whatever its elastic
    range.
    """
    return (
        f"at the last report, ranks of run {layout.root.name} continued without their leader on "
        f"{', '.join(nodes)}, which could not be reached within {TOLD_LIMIT:.0f} s: resume when it is "
        "back, or start a run without it, with distributed.nodes and checkpoint.resume"
    )


def _wait_until_quiet(layout: RunLayout, say: Callable[[str], None]) -> None:
    """Wait until the last session's processes are gone: two sessions at once would write the same files.

    A controller that waits for lost nodes is not waited for, and others not for long: the next one takes over
    the run.
    """
    follower = RunFollower(layout)
    begun, said = time.monotonic(), False
    while (found := follower.refresh()).processes_alive or (found.controller_alive and not found.unfenced):
        waited = time.monotonic() - begun
        if waited > QUIET_SAID and not said:
            said = True
            say(f"waiting for the last processes of the run to end, {QUIET_LIMIT:.0f} s at most")
        if waited > QUIET_LIMIT:
            if not found.processes_alive:
                return
            raise LaunchError(
                f"processes of run {found.id} are still alive {QUIET_LIMIT:.0f} s after its end"
            )
        time.sleep(0.05)


def _write_end(layout: RunLayout, found: RunView) -> None:
    """Write an end that no process survived to write: what follows in the journal is another session.

    The node's journal has one writer, the holder of the agent's lock, so this takes the lock. The journal of
    another machine is only mirrored here: the end is then written to the run's own journal.
    """
    from torchdeck.agent.startup import (  # loads half the agent, which few callers need
        session_of_run,
        take_lock,
    )

    checkpoint = found.checkpoint.path if found.checkpoint is not None else ""
    end: dict[str, Any] = {
        "state": RunState.FAILED.value,
        "why": found.why,
        "resumable": True,
        "checkpoint": checkpoint,
        "attempt": found.attempt,
    }
    leader = _plan(layout).nodes[0].name
    if leader != LOCALHOST:
        with JournalWriter(layout.journal) as journal:
            journal.append("lost", **end, life=session_of_run(layout), nodes=[])
        return
    node = layout.node(leader)
    node.root.mkdir(parents=True, exist_ok=True)
    lock = take_lock(node.lock)
    if lock is None:
        raise LaunchError(f"an agent of run {found.id} has just come back: it continues")
    try:
        with JournalWriter(node.journal) as journal:
            journal.append("finished", **end)
    finally:
        os.close(lock)


def _forget_requests(layout: RunLayout) -> None:
    """Delete requests that came too late for the last session, so that they do not stop the next one."""
    folders = [layout.control, *layout.nodes.glob("*/inbox")]
    for folder in folders:
        for path in folder.glob("*.json"):
            path.unlink(missing_ok=True)
