"""Why a run is in its state, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.runs.history import RunHistory
from torchdeck.runs.state import AttemptView, DeviceHolder, Failure, Hang, RunState

STOP_REASONS: Mapping[str, str] = {
    "user": "stop requested",
    "disk": "the disk is nearly full",
    "hang": "a rank stood still",
    "limit": "the time limit is reached",
    "gone": "the run directory was deleted",
}


def of_phase(history: RunHistory) -> str:
    """What a run in this phase is doing; empty when the state says it all."""
    if history.phase is RunState.QUEUED:
        return f"waits for {held_by(history.held_by)}"
    if history.phase is RunState.STOPPING and history.stopping is not None:
        kind, why = history.stopping
        how = "ending the processes" if kind == "now" else "the ranks finish the step, save and exit"
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


def hang(found: Hang) -> str:
    """`rank 1 has stood still for 34 s in training at step 120 (limit 30 s)`."""
    text = f"rank {found.rank} has stood still"
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
    who = "torchrun" if found.rank is None else f"rank {found.rank}"
    if found.signal:
        return f"{who} was ended by {found.signal}"
    if found.code is not None:
        return f"{who} failed with exit code {found.code}"
    return f"{who} failed"


def never_started(agents: Mapping[str, object]) -> str:
    """Nothing of the run is alive and no attempt was made."""
    if agents:
        return "the agent ended before it started the ranks; nodes/*/agent.log in its directory may say why"
    return "the controller ended before it started an agent; controller.log in its directory may say why"


def of_outcome(attempt: AttemptView) -> str:
    """The last attempt's end is known, though nobody wrote the run's."""
    if attempt.outcome == "failed" and attempt.first_failure is not None:
        return f"{failure(attempt.first_failure)}; the agent ended before it could decide what follows"
    return f"attempt {attempt.number} {attempt.outcome}; the agent ended before it could write the run's end"


def lost(*, same_boot: bool) -> str:
    """Nothing is alive and nothing says how it ended."""
    if same_boot:
        return "all of its processes are gone and none of them wrote how it ended"
    return "the machine was started anew (a power cut or a reboot) while the run was going"


def torn(lines: int) -> str:
    """A journal has lines that a crash or a full disk cut."""
    what = "one line of the journals is" if lines == 1 else f"{lines} lines of the journals are"
    return f"{what} torn (a crash or a full disk cut it short); everything else is here"


def damaged(path: str, why: str) -> str:
    """A checkpoint that was not loaded, because it is not what was saved."""
    return f"checkpoint {path} is damaged and was not used: {why}"
