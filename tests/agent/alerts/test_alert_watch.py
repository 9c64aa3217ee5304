"""The watch over a journal and rows written by hand, with real deliveries."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.agent_run import NODE, make_plan
from support.system.http_server import HttpServer, http_server
from support.values.alert_values import rules
from support.waiting import wait_until
from torchdeck.agent.agent import alert_watch
from torchdeck.agent.alerts.alert_watch import AlertWatch
from torchdeck.agent.attempt.handover import NOTHING, Handover
from torchdeck.agent.ranks.rank_watch import RankState
from torchdeck.contract.journal import PatientJournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.alert_plan import AlertTarget
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.run_states import RankPhase
from torchdeck.telemetry.writer import MetricsWriter

pytestmark = pytest.mark.processes


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as found:
        yield found


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = RunLayout(tmp_path / "runs" / "run")
    layout.node(NODE).root.mkdir(parents=True)
    return layout


@pytest.fixture
def journal(layout: RunLayout) -> Iterator[PatientJournalWriter]:
    with PatientJournalWriter(layout.node(NODE).journal) as journal:
        journal.append("agent_started", life=0)
        yield journal


def plan_of(tmp_path: Path) -> LaunchPlan:
    alerts = rules(AlertTarget("ntfy", "${HOOK}"), interval=0.0)
    return dataclasses.replace(make_plan(["true"], tmp_path, name="tiny"), alerts=alerts)


def watch(layout: RunLayout, journal: PatientJournalWriter, hook: str, session: int = 0) -> AlertWatch:
    secrets = {"HOOK": hook, "OTHER": "of-the-ranks"}
    found = alert_watch(layout, plan_of(layout.root), NODE, journal, Handover(secrets=secrets), session)
    assert found is not None
    return found


def titles(server: HttpServer, count: int) -> list[str]:
    """Titles of the first `count` requests, once they are there."""
    wait_until(lambda: len(server.requests) >= count, 20, f"{count} requests, not {server.requests}")
    return [request.headers["Title"] for request in server.requests]


def hang(journal: PatientJournalWriter, number: int) -> None:
    journal.append(
        "hang", attempt=1, rank=0, ranks=[0], examination=str(number), detail="waits with of-the-ranks"
    )


def test_another_agent_repeats_nothing_and_misses_nothing(
    layout: RunLayout, journal: PatientJournalWriter, server: HttpServer
) -> None:
    """It reads the journal from its beginning; secrets of ranks in an error are masked."""
    first = watch(layout, journal, server.url)
    hang(journal, 1)
    first.look({}, -1)
    assert titles(server, 1) == ["tiny hangs (rank 0)"]
    assert b"waits with ***" in server.requests[0].body
    hang(journal, 2)
    second = watch(layout, journal, server.url)
    second.look({}, -1)
    assert titles(server, 2) == ["tiny hangs (rank 0)"] * 2
    journal.append("finished", state="SUCCEEDED", why="")
    second.end()
    third = watch(layout, journal, server.url)  # as of an agent that is started after the end
    third.end()
    assert titles(server, 3)[2:] == ["tiny succeeded"]
    names = [event.name for event in read_journal(layout.node(NODE).alerts)]
    assert names == ["alert_sent"] * 3


def test_a_resumed_run_reports_its_own_session_only(
    layout: RunLayout, journal: PatientJournalWriter, server: HttpServer
) -> None:
    """What happened before is not told again, even if it never was."""
    hang(journal, 1)
    journal.append("finished", state="FAILED", why="")
    journal.append("agent_started", life=1)
    resumed = watch(layout, journal, server.url, session=1)
    journal.append("finished", state="SUCCEEDED", why="")
    resumed.end()
    assert titles(server, 1) == ["tiny succeeded"]


def test_rows_and_progress_of_ranks_are_read(
    layout: RunLayout, journal: PatientJournalWriter, server: HttpServer
) -> None:
    """Rank 0's, whatever the program calls its loss; of several sources the most trusted one."""
    metrics = layout.attempt(1).rank(0).metrics
    printed, logged = MetricsWriter(metrics, source="stdout"), MetricsWriter(metrics, source="log")
    seen = watch(layout, journal, server.url)
    journal.append("attempt_started", attempt=1)
    logged.log({"train/loss": 2.5}, 7)
    printed.log({"loss": math.nan}, 7)
    ranks = {0: RankState(RankPhase.TRAINING, 7, 10, 0.0, 0.0, None)}
    seen.look(ranks, -1)
    assert server.requests == []
    logged.log({"train/loss": math.inf}, 8)
    seen.look(ranks, -1)
    assert titles(server, 1) == ["tiny reports loss +infinity at step 8"]
    assert b"Step 7 of 10, loss inf at step 8" in server.requests[0].body
    printed.close()
    logged.close()


def test_an_error_never_reaches_the_agent(
    layout: RunLayout, journal: PatientJournalWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is logged once."""
    seen = watch(layout, journal, "http://127.0.0.1:9")
    layout.node(NODE).journal.unlink()
    layout.node(NODE).journal.mkdir()
    seen.look({}, -1)
    seen.look({}, -1)
    assert capsys.readouterr().err.count("alerts:") == 1


def test_the_leader_alone_sends(layout: RunLayout, journal: PatientJournalWriter) -> None:
    """And no one if the plan has no alerts."""
    plan = plan_of(layout.root)
    assert alert_watch(layout, plan, "other", journal, NOTHING, 0) is None
    assert alert_watch(layout, dataclasses.replace(plan, alerts=None), NODE, journal, NOTHING, 0) is None


def test_a_plan_with_alerts_survives_json_and_one_without_has_no_such_key(tmp_path: Path) -> None:
    """Plans of earlier versions have a fingerprint."""
    plan = plan_of(tmp_path)
    assert LaunchPlan.from_json(json.loads(json.dumps(plan.document()))) == plan
    assert "alerts" not in dataclasses.replace(plan, alerts=None).document()
