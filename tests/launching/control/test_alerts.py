"""Alerts of real runs: sent by the leader's agent to a real server, with the token in no file."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from pathlib import Path

import pytest

from support.agents.agent_run import NODE, make_plan, script
from support.agents.controlled_run import new_run, wait_until_over
from support.agents.gang_run import make_gang_plan
from support.system.http_server import http_server
from support.values.alert_values import rules
from support.waiting import wait_for_value, wait_until
from torchdeck.agent.attempt.handover import handover_from
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.alert_plan import AlertTarget
from torchdeck.contract.processes import processes_of_run
from torchdeck.launching.control.agent_watchdog import Handovers
from torchdeck.launching.control.lost_alert import send_lost_alert
from torchdeck.launching.launcher import LaunchError, start_controller
from torchdeck.runs.follower import read_run
from torchdeck.runs.replay.alerts_seen import AlertView
from torchdeck.runs.run_timeline import TimelineReader

pytestmark = pytest.mark.processes

FAILS = """
import os
assert "HOOK" not in os.environ
print("step 1/4 loss 2.5", flush=True)
print("step 2/4 loss nan", flush=True)
if os.environ["RANK"] == "0":
    raise ValueError("no such layer\\nsecond line")
import time; time.sleep(60)
"""


def settled(layout: RunLayout, *, is_over: bool = True) -> tuple[AlertView, ...]:
    """Alerts of the run, once the outcome of each is known."""

    def known() -> tuple[AlertView, ...] | None:
        alerts = read_run(layout).alerts
        pending = [each for alert in alerts for each in alert.deliveries if each.state == "pending"]
        ended = read_run(layout).is_over or not is_over
        return None if pending or not alerts or not ended else alerts

    return wait_for_value(known, 30, "the outcome of alerts")


def test_a_run_that_fails_says_so(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its name, host, state, last step, loss and the first line of the error; NaN is reported, too.

    A target that cannot be reached is named by `runs show`. The token is in the request, and in no file of
    the home, nor do ranks get it.
    """
    token = "token-" + os.urandom(8).hex()
    with http_server() as server:
        monkeypatch.setenv("HOOK", f"{server.url}/{token}")
        names = ("event", "title", "text", "host", "error")
        body = json.dumps({name: f"@{{{name}}}" for name in names})
        targets = (
            AlertTarget("webhook", "${HOOK}", body=body),
            AlertTarget("slack", "ftp://nowhere"),
        )
        plan = make_plan(script(tmp_path, FAILS), tmp_path, name="doomed")
        layout = new_run(dataclasses.replace(plan, alerts=rules(*targets, interval=0.0)))
        start_controller(layout)
        view = wait_until_over(layout)
        alerts = settled(layout)
        requests = [json.loads(request.body) for request in server.requests]
    assert view.state == "FAILED"
    assert {request.path for request in server.requests} == {f"/{token}"}
    told = {request["event"]: request for request in requests}
    assert len(told) == len(requests) == 2
    assert told["not_finite"]["title"] == "doomed reports loss NaN at step 2"
    failed = told["failed"]
    assert failed["title"] == "doomed failed"
    assert failed["error"] == "ValueError: no such layer (rank 0)"
    assert failed["host"] == socket.gethostname()
    assert failed["text"].splitlines() == [
        "ValueError: no such layer (rank 0)",
        "State: FAILED",
        "Step 2 of 4, loss nan",
        f"Host: {socket.gethostname()}",
        f"Run: {layout.root.name}",
    ]
    assert [alert.event for alert in alerts][-1] == "failed"
    assert {(each.target, each.state) for alert in alerts for each in alert.deliveries} == {
        ("webhook", "sent"),
        ("slack", "failed"),
    }
    assert "slack failed: the address is not one of HTTP" in read_run(layout).warnings[-1]
    happened = [each.text for each in TimelineReader(layout).refresh() or ()]
    assert "alert: doomed failed" in happened
    assert "alert sent to webhook" in happened
    wait_until(lambda: not processes_of_run(layout.root.name), 20, "the run to end")
    for path in home.rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path


def test_a_lost_run_is_reported_by_its_controller(home: Path, tmp_path: Path) -> None:
    """The leader, which reports all else, cannot."""
    with http_server() as server:
        plan = make_plan(script(tmp_path, "never"), tmp_path, name="far")
        plan = dataclasses.replace(plan, alerts=rules(AlertTarget("ntfy", "${HOOK}")))
        layout = RunLayout(home / "runs" / "run")
        layout.node(NODE).root.mkdir(parents=True)
        lost = {"state": "LOST", "why": "node gpu1 has not answered for 240 s"}
        with JournalWriter(layout.journal) as journal:
            send_lost_alert(layout, plan, {"HOOK": server.url}, journal, lost)
        (alert,) = settled(layout, is_over=False)
        (request,) = server.requests
    assert request.headers["Title"] == "far is lost"
    assert request.body.decode().splitlines()[:2] == [lost["why"], "State: LOST"]
    assert alert.sentence == "far is lost: sent to ntfy"


def test_only_the_leader_gets_the_secrets_of_alerts(tmp_path: Path) -> None:
    """And a start without their value is refused, which names it."""
    plan = make_gang_plan(["true"], tmp_path)
    plan = dataclasses.replace(plan, alerts=rules(AlertTarget("slack", "${HOOK}")))
    handovers = Handovers(plan, {"HOOK": "value"})
    leader, other = (node.name for node in plan.nodes)
    first, second = handovers.line(leader, None), handovers.line(other, ("127.0.0.1", 1))
    assert first is not None
    assert second is not None
    assert handover_from(first).secrets == {"HOOK": "value"}
    assert handover_from(second).secrets == {}
    with pytest.raises(LaunchError, match="alerts names HOOK"):
        new_run(plan)
