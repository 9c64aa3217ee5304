"""A machine that is stalled for a while, with everything on it: no rank hangs by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents.agent_run import Maker, make_plan, with_policy
from support.agents.agent_scripts import COOPERATIVE, freeze
from support.waiting import wait_until
from torchdeck.agent.attempt import local_attempt
from torchdeck.agent.attempt.local_attempt import LAUNCH_LIMIT, LocalAttempt
from torchdeck.agent.gang import events
from torchdeck.agent.own_clock import COUNTED, GAP, OwnClock
from torchdeck.contract.layout import RunLayout

HANG_AFTER = 3.0
FREEZE = 5.0
LOGGING = """
import time
import torchdeck
step = 0
while True:
    step += 1
    torchdeck.log({"loss": 1.0}, step=step)
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("script", "cooperative"), [(COOPERATIVE, True), (LOGGING, False)])
def test_a_run_that_was_frozen_goes_on(make_run: Maker, script: str, cooperative: bool) -> None:
    """With on_hang = "stop", for longer than ranks may are stalled; by their own reports, and by metrics."""
    policy = with_policy(cooperative_stop=cooperative, hang_after=HANG_AFTER, on_hang="stop")
    run = make_run(script, policy=policy).start()
    run.wait("running")

    def steps() -> list[int]:
        ranks = run.heartbeat().get("ranks", {}).values()
        return [rank["step"] for rank in ranks if rank["phase"] == "training"]

    # a rhythm is known from the second row on: before that a script's rank is not watched
    before = wait_until(lambda: found if min(found := steps(), default=0) > 40 else [], 30, "steps")
    agent = run.agent()
    assert agent is not None
    freeze([agent, *run.alive()], FREEZE)
    wait_until(lambda: min(steps(), default=0) > max(before), 20, f"more steps: {run.describe()}")
    assert not run.events("hang")
    assert FREEZE - 1 < run.wait("agent_paused").fields["seconds"] < FREEZE + 10
    run.request("stop_now")
    assert run.finished()["state"] == "CANCELLED"


class Readings:
    """Clocks that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot, self.monotonic, self.wall = 1000.0, 500.0, 1.7e9
        monkeypatch.setattr(OwnClock, "_readings", lambda _: (self.boot, self.monotonic, self.wall))

    def pass_(self, seconds: float, *, asleep: bool = False) -> None:
        self.boot += seconds
        self.wall += seconds
        self.monotonic += 0.0 if asleep else seconds


@pytest.mark.parametrize("asleep", [False, True])
def test_the_clock_leaves_gaps_out(monkeypatch: pytest.MonkeyPatch, asleep: bool) -> None:
    """Stopped, or in a suspended machine, where the monotonic clock is stalled by itself."""
    readings = Readings(monkeypatch)
    clock = OwnClock()
    begun, monotonic, wall = clock(), readings.monotonic, readings.wall
    for _ in range(20):
        readings.pass_(GAP / 2)
        clock()
    assert clock() - begun == pytest.approx(10 * GAP)
    assert clock.take_gap() == 0.0
    readings.pass_(60.0, asleep=asleep)
    counted = 10 * GAP + (0.0 if asleep else COUNTED)
    assert clock() - begun == pytest.approx(counted)
    assert clock.since(monotonic) == pytest.approx(counted)
    assert clock.since_wall(wall) == pytest.approx(10 * GAP + COUNTED)
    assert clock.take_gap() == 60.0
    readings.pass_(1.0)
    assert clock() - begun == pytest.approx(counted + 1)
    assert clock.since(readings.monotonic - 1.0) == pytest.approx(1.0)
    assert clock.since_wall(readings.wall - 31.0) == pytest.approx(1.0)
    assert clock.take_gap() == 0.0


def test_limits_come_though_a_slow_disk_holds_every_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = Readings(monkeypatch)
    clock = OwnClock()
    begun = clock()
    for _ in range(10):
        readings.pass_(GAP + 0.2)
        clock()
    assert clock() - begun == pytest.approx(10 * COUNTED)


def test_a_start_that_was_frozen_is_not_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limit is for time in which it could continue."""
    readings = Readings(monkeypatch)
    # it has not started torchrun yet
    monkeypatch.setattr(local_attempt, "start_shim", lambda *_: lambda: None)
    clock = OwnClock()
    plan = make_plan(["true"], tmp_path)
    layout = RunLayout(tmp_path / "run")
    attempt = LocalAttempt(1, plan.nodes[0], layout.attempt(1), [0, 1], clock=clock)
    attempt.start([], [])
    readings.pass_(2 * LAUNCH_LIMIT)
    clock()
    assert attempt.poll("localhost") == []
    for _ in range(int(LAUNCH_LIMIT) + 1):
        readings.pass_(1.0)
        clock()
    (failed,) = attempt.poll("localhost")
    assert isinstance(failed, events.LaunchFailed)
