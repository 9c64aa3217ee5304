"""Reasons for a run's state, one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchdeck.contract.run_states import Outcome, StopCause, StopKind
from torchdeck.quantities import ago, duration, moment, size
from torchdeck.runs.jobs.job_state import is_job
from torchdeck.runs.links import CONNECTING, LOST, NEEDS_LOGIN, REFUSED, UP, LinkState
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.alerts_seen import AlertView
from torchdeck.runs.replay.history import RunHistory
from torchdeck.runs.run_state import AttemptView, DeviceHolder, Failure, Hang, RunState, Straggler
from torchdeck.shown_text import shown_line

STOP_REASONS: Mapping[str, str] = {
    StopCause.USER: "stop requested",
    StopCause.DISK: "the disk is nearly full",
    StopCause.INODES: "the disk has nearly no inodes left",
    StopCause.HANG: "a rank was stalled",
    StopCause.LIMIT: "the time limit is reached",
    StopCause.GONE: "the run directory was deleted",
    StopCause.NODE: "a node cannot take part",
    StopCause.REPLACED: "this part of the run was replaced",
}


SHOWN_LOGS = 4
"""Maximum number of logs named in one sentence."""
UNFOLLOWED = "not followed from here: use `torchdeck runs attach`"
"""For a node that was up when its controller last reported."""


def of_phase(history: RunHistory) -> str:
    """Return the activity of a run in this phase; empty if the state says it all."""
    if history.phase is RunState.QUEUED:
        return f"waits for {held_by(history.held_by)}"
    if history.phase is RunState.STOPPING and history.stopping is not None:
        kind, why = history.stopping
        how = "ending the processes" if kind == StopKind.NOW else "the ranks finish the step, save and exit"
        return f"{STOP_REASONS.get(why, why)}: {how}"
    if history.phase is RunState.RESTARTING and is_job(history):
        return "requeued: the job waits for Slurm to start it again"
    if history.phase is RunState.RESTARTING and history.restart_delay is not None:
        again = f"starts again in {history.restart_delay:g} s"
        again = f"{again} without {history.given_up}" if history.given_up else again
        last = history.attempts[max(history.attempts)].first_failure if history.attempts else None
        return again if last is None else f"{failure(last)}; {again}"
    if history.hangs:
        return hang(history.hangs[min(history.hangs)])
    if history.phase in (RunState.PREPARING, RunState.STARTING, RunState.RESTARTING):
        return "; ".join(
            f"node {node}: {text}" for node, text in sorted(history.reports.environments.items())
        )
    return ""


def held_by(holders: tuple[DeviceHolder, ...]) -> str:
    """Return `GPU-1 (run 2026…-gpt-0a1b2c, "gpt")` and so on."""
    return "; ".join(f"{item.device} (run {item.run_id}, {item.name!r})" for item in holders) or "its devices"


def link(found: LinkState, step: int | None, now: float) -> str:
    """Return `node b: link lost 12 s ago, last seen step 840`."""
    what = UNFOLLOWED if found.state == UP else link_word(found, now)
    seen = f", last seen step {step}" if step is not None else ""
    why = f" ({found.why})" if found.state in (NEEDS_LOGIN, REFUSED) and found.why else ""
    return f"node {found.node}: {what}{seen}{why}"


def link_word(found: LinkState, now: float) -> str:
    """Return `connected`, `link lost 12 s ago`."""
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
    """Describe a run whose controller here has been gone for so many seconds; only its nodes know its
    state.
    """
    return f"not followed from here for {duration(seconds)}; only its nodes know whether it continues"


def unfollowed_node(found: LinkState, now: float) -> str:
    """Describe the same for a node, with the time of its last contact."""
    return f"{UNFOLLOWED}{heard_of(found, now)}"


def heard_of(found: LinkState, now: float) -> str:
    """Return `, last heard from 3 min ago`; empty for a node that was never heard."""
    return "" if found.heard is None else f", last heard from {ago(max(0.0, now - found.heard))}"


def link_since(found: LinkState) -> float | None:
    """Return when a link's state began; for a lost link, when the node was last heard, as the loss shows
    later.
    """
    if found.state == LOST and found.heard is not None and found.heard < found.since:
        return found.heard
    return found.since or None


def held_back(node: str, what: str) -> str:
    """Describe files that stay on their node."""
    return f"this machine's disk is nearly full: {what} of node {node} are not copied until there is room"


def silent(node: str, seconds: float, grace: float | None, *, given_up: bool) -> str:
    """Describe a node that the leader does not hear: since when, and the consequence."""
    after = "launch.node_grace" if grace is None else f"{grace:g} s"
    what = f"after {after} it was given up" if given_up else f"given up after {after}"
    return f"node {node} has been silent to the other nodes for {max(0.0, seconds):.0f} s ({what})"


def quiet(fields: Mapping[str, Any]) -> str:
    """Describe a training that is only watched, and of which nothing comes any more."""
    return f"nothing was written since {moment(typed.moment(fields, 'since'))}"


def agent_gone(node: str) -> str:
    """Describe a node whose agent is dead while another process of the run is alive there."""
    return f"the agent on {node} is gone; the ranks continue without it"


def agent_late(node: str, seconds: float) -> str:
    """Describe a node whose agent sends no heartbeat."""
    return f"no sign of the agent on {node} for {seconds:.0f} s"


def unheard(seconds: float, lost_after: float | None) -> str:
    """Describe a run without contact to any node; `lost_after` is the run's launch.lost_after, if set."""
    ends = "" if lost_after is None else f", or wait until launch.lost_after ({lost_after:g} s) does so"
    hint = "; with launch.lost_after a run becomes LOST by itself" if lost_after is None else ""
    return (
        f"no node has answered for more than {seconds:g} s (2 × launch.node_grace): the run keeps its state, "
        "because the fault may be this machine's network. If its nodes are gone, `torchdeck runs stop --now` "
        f"gives it up{ends}{hint}"
    )


def unanswered(node: str, since: float | None) -> str:
    """Describe an agent that a stop waits for; `since` in unix seconds."""
    return (
        f"the agent on {node} has given no sign of life since {moment(since)} (`torchdeck runs stop --now` "
        "replaces it after launch.node_grace)"
    )


def leaderless(node: str, unattended: str) -> str:
    """Describe what the ranks of a leaderless node do."""
    do = "continue without it" if unattended == "continue" else "are ended"
    return (
        f"node {node} has not heard from the leading node for launch.node_grace: its ranks {do} "
        f"(launch.unattended)"
    )


def gave_leader_up(nodes: Sequence[str]) -> str:
    """Describe nodes that have ended their ranks, while the leader may continue without them."""
    return (
        f"{', '.join(nodes)} gave the leading node up and ended all ranks; if that one never returns, "
        "`torchdeck runs stop --now` gives up the run"
    )


def alone(node: str) -> str:
    """Describe ranks that continue though the run is over."""
    return f"ranks on node {node} continued without the leader at the last report: a stop ends them"


def untold(nodes: Sequence[str]) -> str:
    """Describe what a controller waits for that took over the run without the gang's token."""
    who = f"the agent on {nodes[0]} has" if len(nodes) == 1 else f"the agents on {', '.join(nodes)} have"
    return (
        f"an agent is missing and waits for the gang's token: {who} not reported it yet, and "
        f"{'is' if len(nodes) == 1 else 'are'} given up after launch.node_grace"
    )


def code_to(found: LinkState) -> str:
    """Return `sending code to node b: 34.0 MiB of 120.0 MiB`."""
    return f"sending code to node {found.node}: {size(found.code_sent or 0)} of {size(found.code_size or 0)}"


def code_to_all(found: Sequence[LinkState]) -> str:
    """Return the same for one node, or for several together; empty for none."""
    if len(found) < 2:
        return code_to(found[0]) if found else ""
    sent = sum(each.code_sent or 0 for each in found)
    whole = sum(each.code_size or 0 for each in found)
    return f"sending code to {len(found)} nodes: {size(sent)} of {size(whole)}"


def hang(found: Hang) -> str:
    """`rank 1 has made no progress for 34 s in training at step 120 (limit 30 s)`."""
    if found.kind:
        return _verdict(found)
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


def _verdict(found: Hang) -> str:
    """Return the verdict, for how long at least, and where the evidence is; true as long as it lasts."""
    least = found.still if found.limit is None else found.limit
    since = "" if least is None else f" No progress for more than {least:.0f} s."
    evidence = f" Evidence: {found.evidence}" if found.evidence else ""
    return f"{found.detail}{since}{evidence}"


def alert(found: AlertView) -> str:
    """Report an alert that was not delivered."""
    return f"an alert was not delivered to all targets: {found.sentence}"


def hung_before_stop(found: Hang) -> str:
    """Describe the hang of a run that its user stopped."""
    return f"before it was stopped, it hung: {hang(found)}"


def slowed(found: Straggler) -> str:
    """Describe ranks that made the others wait until the run ended."""
    return f"until it ended: {found.detail}"


def failure(found: Failure) -> str:
    """Return `rank 1 failed with exit code 1`, or the failure's message."""
    who = failed(found)
    if found.signal:
        return f"{who} was ended by {found.signal}"
    if found.code is not None:
        return f"{who} failed with exit code {found.code}"
    if found.rank is None and found.message:
        return found.message.splitlines()[0]  # for example a lost node: torchrun has not failed
    return f"{who} failed"


def failed(found: Failure) -> str:
    """Return what failed: `rank 1`, `rank 1 on node b` in a run of several nodes, or torchrun itself."""
    if found.rank is None:
        return "torchrun"
    return f"rank {found.rank} on node {found.node}" if found.node else f"rank {found.rank}"


def placed(why: str, found: Failure | None) -> str:
    """Add the node to an agent's sentence that names the rank that failed first."""
    if found is None or found.rank is None or not found.node:
        return why
    return re.sub(rf"\brank {found.rank}\b(?! on node)", lambda _: failed(found), why, count=1)


def agent_failed(errors: Mapping[str, str]) -> str:
    """Describe agents that ended with internal errors; empty if there are none."""
    return "; ".join(
        f"the agent on {node} ended by an error of its own, {error} (traceback in nodes/{node}/agent.log)"
        for node, error in sorted(errors.items())[:SHOWN_LOGS]
    )


def never_started(agents: Mapping[str, object]) -> str:
    """Describe a run without live processes and without an attempt."""
    if agents:
        logs = ", ".join(f"nodes/{node}/agent.log" for node in sorted(agents)[:SHOWN_LOGS])
        return f"the agent ended before it started the ranks; {logs} in its directory may say why"
    return "the controller ended before it started an agent; controller.log in its directory may say why"


def of_outcome(attempt: AttemptView) -> str:
    """Describe a run whose last attempt's end is known, though the run's own end was never written."""
    if attempt.outcome == Outcome.FAILED and attempt.first_failure is not None:
        return f"{failure(attempt.first_failure)}; the agent ended before it could decide what follows"
    return f"attempt {attempt.number} {attempt.outcome}; the agent ended before it could write the run's end"


def ended_unheard(attempt: AttemptView, why: str) -> str:
    """Describe a run whose ranks have all ended, and whose leader was given up before it reported the end."""
    return f"attempt {attempt.number} {attempt.outcome} on all ranks; since then {why}"


def lost(*, same_boot: bool) -> str:
    """Describe a run without live processes and without a record of its end."""
    if same_boot:
        return "all of its processes are gone, and none recorded how it ended"
    return "the machine was started again (a power cut or a reboot) during the run"


def job_silent(last: float | None) -> str:
    """Describe a job of Slurm without a sign of life; `last` is its last event, in unix seconds."""
    since = "" if last is None else f" since {moment(last)}"
    return f"the job has written nothing{since}: it was ended, or its folder is not reachable from here"


def stopped_unread(path: str) -> str:
    """Describe a run that was being stopped, and whose final journal line cannot be read."""
    return f"stop requested; its end cannot be read (damaged lines in {path})"


def end_unread(paths: Sequence[str]) -> str:
    """Describe a run without live processes whose final journal line may be damaged."""
    return f"its end cannot be read: {', '.join(paths)} {'is' if len(paths) == 1 else 'are'} damaged"


def damaged(path: str, why: str) -> str:
    """Describe a checkpoint that was not loaded because it differs from what was saved."""
    return f"checkpoint {path} is damaged and was not used: {why}"


def numbers_left_out(ranks: Sequence[int]) -> str:
    """Describe ranks that print more lines than the agent can search for numbers."""
    numbers = ", ".join(map(str, ranks))
    who = f"rank {numbers} prints" if len(ranks) == 1 else f"ranks {numbers} print"
    return (
        f"{who} more lines than can be searched for numbers: some points are missing from the plots "
        "(logs are complete). Print less often, or call torchdeck.log"
    )


def results(event: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Describe what the program wrote next to its code, as told by an event `results`.

    Args:
        event: fields of the event.
        folder: the user's folder, of which the run executed a copy.
    """
    node = typed.text(event, "node")
    for kind in ("brought", "left"):
        told = typed.mapping(event, kind)
        count, names = typed.whole(told, "count") or 0, told.get("names")
        if count and isinstance(names, list):
            shown = ", ".join(shown_line(name) for name in names if isinstance(name, str))
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            files = f"{count:,} file{'s' * (count > 1)} next to its code"
            if kind == "brought":
                yield f"the program wrote {files}: they are in {folder} now ({shown}{more})"
            else:
                yield f"the program wrote {files}, only in the run's copy on {node} ({shown}{more})"


def strangers(event: Mapping[str, Any]) -> str:
    """Describe rejected connections to torchrun's store, as counted by an event `strangers`."""
    return (
        f"{typed.whole(event, 'count') or 0} or more connections to the run's store were refused, one from "
        f"{typed.text(event, 'address')}: {typed.text(event, 'why')}"
    )
