"""Why a run is in its state, in one sentence each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torchdeck.contract.run_states import Outcome, StopCause, StopKind
from torchdeck.quantities import ago, duration, size
from torchdeck.runs.links import CONNECTING, LOST, NEEDS_LOGIN, REFUSED, UP, LinkState
from torchdeck.runs.replay import fields as read
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.state import AttemptView, DeviceHolder, Failure, Hang, RunState

STOP_REASONS: Mapping[str, str] = {
    StopCause.USER: "stop requested",
    StopCause.DISK: "the disk is nearly full",
    StopCause.INODES: "the disk has nearly no inodes left",
    StopCause.HANG: "a rank stood still",
    StopCause.LIMIT: "the time limit is reached",
    StopCause.GONE: "the run directory was deleted",
    StopCause.NODE: "a node cannot take part",
    StopCause.REPLACED: "this part of the run was replaced",
}


SHOWN_LOGS = 4
"""Logs that one sentence names."""
UNFOLLOWED = "nobody follows it here: `torchdeck runs attach` does"
"""Of a node that was up when its controller was heard of last."""


def of_phase(history: RunHistory) -> str:
    """What a run in this phase is doing; empty when the state says it all."""
    if history.phase is RunState.QUEUED:
        return f"waits for {held_by(history.held_by)}"
    if history.phase is RunState.STOPPING and history.stopping is not None:
        kind, why = history.stopping
        how = "ending the processes" if kind == StopKind.NOW else "the ranks finish the step, save and exit"
        return f"{STOP_REASONS.get(why, why)}: {how}"
    if history.phase is RunState.RESTARTING and history.restart_delay is not None:
        again = f"starts again in {history.restart_delay:g} s"
        again = f"{again} without {history.given_up}" if history.given_up else again
        last = history.attempts[max(history.attempts)].first_failure if history.attempts else None
        return again if last is None else f"{failure(last)}; {again}"
    if history.hangs:
        return hang(history.hangs[min(history.hangs)])
    return ""


def held_by(holders: tuple[DeviceHolder, ...]) -> str:
    """`GPU-1 (run 2026…-gpt-0a1b2c, "gpt")` and so on."""
    return "; ".join(f"{item.device} (run {item.run_id}, {item.name!r})" for item in holders) or "its devices"


def link(found: LinkState, step: int | None, now: float) -> str:
    """`node b: link lost 12 s ago, last seen step 840`."""
    what = UNFOLLOWED if found.state == UP else link_word(found, now)
    seen = f", last seen step {step}" if step is not None else ""
    why = f" ({found.why})" if found.state in (NEEDS_LOGIN, REFUSED) and found.why else ""
    return f"node {found.node}: {what}{seen}{why}"


def link_word(found: LinkState, now: float) -> str:
    """`connected`, `link lost 12 s ago`."""
    since = link_since(found)
    ago = "" if since is None else f" {max(0.0, now - since):.0f} s ago"
    return {
        CONNECTING: "not reached yet" if since is None else f"not reached for {max(0.0, now - since):.0f} s",
        LOST: f"link lost{ago}",
        NEEDS_LOGIN: f"needs login{ago}",
        REFUSED: f"refused{ago}",
        UP: "connected",
    }[found.state]


def unfollowed(seconds: float) -> str:
    """Of a run whose controller here is gone, after so many seconds; what its nodes do, only they can say."""
    return f"nobody has followed it here for {duration(seconds)}; whether it goes on, only its nodes know"


def unfollowed_node(found: LinkState, now: float) -> str:
    """The same of a node, with when it was heard of last."""
    return f"{UNFOLLOWED}{heard_of(found, now)}"


def heard_of(found: LinkState, now: float) -> str:
    """`, heard of last 3 min ago`; empty for a node that never was."""
    return "" if found.heard is None else f", heard of last {ago(max(0.0, now - found.heard))}"


def link_since(found: LinkState) -> float | None:
    """When a link's state began; of one that is lost, when the node was heard last, as it shows later."""
    if found.state == LOST and found.heard is not None and found.heard < found.since:
        return found.heard
    return found.since or None


def held_back(node: str, what: str) -> str:
    """Files that stay on their node."""
    return f"this machine's disk is nearly full: {what} of node {node} are not copied until there is room"


def silent(node: str, seconds: float, grace: float | None, *, given_up: bool) -> str:
    """A node that the leader does not hear, since when, and what comes of it."""
    after = "launch.node_grace" if grace is None else f"{grace:g} s"
    what = f"after {after} it was given up" if given_up else f"given up after {after}"
    return f"node {node} has been silent to the others for {max(0.0, seconds):.0f} s ({what})"


def agent_gone(node: str) -> str:
    """Its agent does not live, and something else of the run does there."""
    return f"the agent on {node} is gone; the ranks go on without it"


def agent_late(node: str, seconds: float) -> str:
    """Its agent gives no signs of life."""
    return f"no sign of the agent on {node} for {seconds:.0f} s"


def leaderless(node: str, unattended: str) -> str:
    """What the ranks of a node do whose agent has given up the leader."""
    do = "go on without it" if unattended == "continue" else "are ended"
    return (
        f"node {node} has not heard from the leading node for launch.node_grace: its ranks {do} "
        f"(launch.unattended)"
    )


def alone(node: str) -> str:
    """Where ranks go on though the run is over."""
    return (
        f"ranks on node {node} were going on without the leader when it was heard of last: a stop ends them"
    )


def untold(nodes: Sequence[str]) -> str:
    """What a controller waits for that took the run over and lacks the gang's token."""
    who = f"the agent on {nodes[0]} lives" if len(nodes) == 1 else f"the agents on {', '.join(nodes)} live"
    return (
        f"an agent is missing and waits for the gang's token: {who} and did not say it yet, and "
        f"{'is' if len(nodes) == 1 else 'are'} given up after launch.node_grace"
    )


def code_to(found: LinkState) -> str:
    """`sending code to node b: 34.0 MiB of 120.0 MiB`."""
    return f"sending code to node {found.node}: {size(found.code_sent or 0)} of {size(found.code_size or 0)}"


def code_to_all(found: Sequence[LinkState]) -> str:
    """The same of one node, or of several together; empty of none."""
    if len(found) < 2:
        return code_to(found[0]) if found else ""
    sent = sum(each.code_sent or 0 for each in found)
    whole = sum(each.code_size or 0 for each in found)
    return f"sending code to {len(found)} nodes: {size(sent)} of {size(whole)}"


def hang(found: Hang) -> str:
    """`rank 1 has made no progress for 34 s in training at step 120 (limit 30 s)`."""
    text = f"rank {found.rank} has made no progress"
    if found.still is not None:
        text += f" for {found.still:.0f} s"
    if found.phase:
        text += f" in {found.phase}"
    if found.step is not None:
        text += f" at step {found.step}"
    if found.limit is not None:
        text += f" (limit {found.limit:.0f} s)"
    return f"{text}: {found.detail}" if found.detail else text


def failure(found: Failure) -> str:
    """`rank 1 failed with exit code 1`, or what there is to say."""
    who = failed(found)
    if found.signal:
        return f"{who} was ended by {found.signal}"
    if found.code is not None:
        return f"{who} failed with exit code {found.code}"
    if found.rank is None and found.message:
        return found.message.splitlines()[0]  # a node that is lost, say: torchrun has not failed
    return f"{who} failed"


def failed(found: Failure) -> str:
    """Who: `rank 1`, `rank 1 on node b` in a run of several nodes, or torchrun itself."""
    if found.rank is None:
        return "torchrun"
    return f"rank {found.rank} on node {found.node}" if found.node else f"rank {found.rank}"


def placed(why: str, found: Failure | None) -> str:
    """A sentence of the agent's that names the rank that failed first, with its node."""
    if found is None or found.rank is None or not found.node:
        return why
    return re.sub(rf"\brank {found.rank}\b(?! on node)", lambda _: failed(found), why, count=1)


def agent_failed(errors: Mapping[str, str]) -> str:
    """Agents that ended by errors of their own; empty if there are none."""
    return "; ".join(
        f"the agent on {node} ended by an error of its own, {error} (traceback in nodes/{node}/agent.log)"
        for node, error in sorted(errors.items())[:SHOWN_LOGS]
    )


def never_started(agents: Mapping[str, object]) -> str:
    """Nothing of the run is alive and no attempt was made."""
    if agents:
        logs = ", ".join(f"nodes/{node}/agent.log" for node in sorted(agents)[:SHOWN_LOGS])
        return f"the agent ended before it started the ranks; {logs} in its directory may say why"
    return "the controller ended before it started an agent; controller.log in its directory may say why"


def of_outcome(attempt: AttemptView) -> str:
    """The last attempt's end is known, though nobody wrote the run's."""
    if attempt.outcome == Outcome.FAILED and attempt.first_failure is not None:
        return f"{failure(attempt.first_failure)}; the agent ended before it could decide what follows"
    return f"attempt {attempt.number} {attempt.outcome}; the agent ended before it could write the run's end"


def lost(*, same_boot: bool) -> str:
    """Nothing is alive and nothing says how it ended."""
    if same_boot:
        return "all of its processes are gone and none of them wrote how it ended"
    return "the machine was started anew (a power cut or a reboot) while the run was going"


def stopped_unread(path: str) -> str:
    """The run was being stopped, and the line that says how it ended cannot be read."""
    return f"stop requested; how it ended cannot be read (damaged lines in {path})"


def end_unread(paths: Sequence[str]) -> str:
    """Nothing is alive, and the line that says how it ended may be damaged."""
    return f"how it ended cannot be read: {', '.join(paths)} {'is' if len(paths) == 1 else 'are'} damaged"


def damaged(path: str, why: str) -> str:
    """A checkpoint that was not loaded, because it is not what was saved."""
    return f"checkpoint {path} is damaged and was not used: {why}"


def numbers_left_out(ranks: Sequence[int]) -> str:
    """Ranks that print more lines than the agent can look through for numbers."""
    numbers = ", ".join(map(str, ranks))
    who = f"rank {numbers} prints" if len(ranks) == 1 else f"ranks {numbers} print"
    return (
        f"{who} more lines than can be searched for numbers: some points are missing from the plots "
        "(logs are complete). Print less often, or call torchdeck.log"
    )


def strangers(event: Mapping[str, Any]) -> str:
    """Connections to torchrun's store that were refused, as an event `strangers` counts them."""
    return (
        f"{read.whole(event, 'count') or 0} or more connections to the run's store were refused, one from "
        f"{read.text(event, 'address')}: {read.text(event, 'why')}"
    )
