"""Devices that runs compete for: refused, queued for, kept while agents and shims die."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents.agent_run import Maker, with_policy
from support.agents.agent_scripts import WAITING, kill_and_wait
from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity


def test_a_device_is_refused_while_another_run_has_it(make_run: Maker) -> None:
    """A second run on the same device does not start, and says whose it is."""
    first = make_run(WAITING, devices=("GPU-1",), name="the first").start()
    first.wait("attempt_started")
    second = make_run(WAITING, devices=("GPU-1",)).start()
    finished = second.finished()
    assert finished["state"] == "FAILED"
    assert first.run_id in finished["why"]
    assert second.events("refused")
    assert not second.events("attempt_started")


def test_a_queued_run_starts_when_the_device_is_free(make_run: Maker) -> None:
    """With queue, the second run waits, and starts once the first ends."""
    first = make_run(WAITING, devices=("GPU-1", "GPU-2"), name="the first").start()
    first.wait("attempt_started")
    second = make_run("print('mine')", devices=("GPU-2",), policy=with_policy(queue=True)).start()
    assert second.wait("queued").fields["held_by"][0]["run_id"] == first.run_id
    first.request("stop_now")
    assert second.finished()["state"] == "SUCCEEDED"


def test_a_queued_run_can_be_stopped(make_run: Maker) -> None:
    """Stopped while queued: CANCELLED, and nothing was started."""
    first = make_run(WAITING, devices=("GPU-1",)).start()
    first.wait("attempt_started")
    second = make_run(WAITING, devices=("GPU-1",), policy=with_policy(queue=True)).start()
    second.wait("queued")
    second.request("stop")
    assert second.finished()["state"] == "CANCELLED"
    assert not second.events("attempt_started")


def has_open(process: ProcessIdentity | None, name: str) -> bool:
    """Whether a process has a file of this name open."""
    if process is None:
        return False
    try:
        return any(link.readlink().name == name for link in Path(f"/proc/{process.pid}/fd").iterdir())
    except FileNotFoundError:  # a descriptor that was closed meanwhile
        return False


@pytest.mark.parametrize("victims", [("agent",), ("holder",), ("agent", "holder")])
def test_a_lease_survives_agent_and_holder(make_run: Maker, victims: tuple[str, ...]) -> None:
    """A running run keeps its device when agent or shim is killed (both: once an agent is back)."""
    first = make_run(WAITING, devices=("GPU-1",)).start()
    first.wait("running")
    for victim in victims:
        kill_and_wait(getattr(first, victim)())
        if victim == "agent":
            wait_until(first.agent, 10, "another agent")
            first.wait("agent_started", count=2)
    wait_until(lambda: has_open(first.agent(), "GPU-1.lock"), 10, "the agent to hold the lease itself")
    second = make_run(WAITING, devices=("GPU-1",)).start()
    assert second.finished()["state"] == "FAILED"
    assert second.events("refused")


def test_a_lease_is_kept_between_attempts_when_the_agent_was_killed(make_run: Maker) -> None:
    """An agent that took over restarts the gang on its device: a queued run does not come in between."""
    policy = with_policy(max_restarts=1, restart_delay=3.0)
    first = make_run(WAITING, devices=("GPU-1",), policy=policy).start()
    first.wait("running")
    kill_and_wait(first.agent())
    first.wait("agent_started", count=2)
    second = make_run(WAITING, devices=("GPU-1",), policy=with_policy(queue=True)).start()
    second.wait("queued")
    kill_and_wait(first.torchrun())
    first.wait("running", count=2)
    assert not second.events("attempt_started")
    first.request("stop_now")
    assert first.finished()["state"] == "CANCELLED"
    second.wait("attempt_started")


def test_no_agent_starts_ranks_on_devices_that_another_run_took(make_run: Maker) -> None:
    """Agent and shim died between two attempts, and the device went: the attempt fails and says why."""
    policy = with_policy(max_restarts=1, restart_delay=4.0)
    first = make_run("raise SystemExit(1)", devices=("GPU-1",), policy=policy).start()
    first.wait("restarting")
    kill_and_wait(first.holder())
    kill_and_wait(first.agent())
    second = make_run(WAITING, devices=("GPU-1",)).start()
    second.wait("attempt_started")
    first.start()
    finished = first.finished()
    assert finished["state"] == "FAILED"
    assert "another run has taken device" in finished["why"]
