"""Real slow ranks on gloo: the rank, its cost and its cause that are named; a healthy run names no one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.agents.agent_run import Maker, with_policy
from support.doctor.faults import WITH_HEARTBEAT
from support.doctor.slowness import BUSY_NEIGHBOUR, BY_DDP, BY_HAND, HEALTHY, SLOW, Slowness, program
from support.waiting import wait_for_value, wait_until
from torchdeck.agent.doctor.arrival_watch import ArrivalWatch
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.agent.doctor.stragglers import Straggler, StragglerWatch, sentence
from torchdeck.contract.doctor.rank_heartbeat import read_rank_heartbeat
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.run_states import RankPhase

pytest.importorskip("torch", reason="the ranks train with it")
pytestmark = [pytest.mark.doctor, pytest.mark.processes, pytest.mark.timeout(240)]

CORE = Path(__file__).resolve().parents[3] / "core"
BEGIN = """
import sys
sys.path.insert(0, sys.argv[1])
from torchdeck.environment import rank_layout
from torchdeck.telemetry.doctor.arrivals import ArrivalReports
from torchdeck.telemetry.doctor.rank_heartbeat import RankHeartbeatThread
layout = rank_layout()
RankHeartbeatThread(layout, ArrivalReports(layout.arrivals, 1.0, share=1.0)).start()
"""
"""Reports every second, not every ten."""
ROUNDS = 6


class Ranks:
    """Ranks without an agent, watched as an agent watches them."""

    def __init__(self, attempt: AttemptLayout, world: int) -> None:
        self._attempt, self._world = attempt, world
        self._arrivals, self.watch = ArrivalWatch(attempt), StragglerWatch()
        self.rounds = 0
        self._due = 0.0

    def look(self) -> None:
        """Once per second."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + 1
        beats = {rank: read_rank_heartbeat(self._attempt.rank(rank).heartbeat) for rank in range(self._world)}
        standings = {
            rank: Standing(rank, RankPhase.TRAINING, 0, 0.0, None, False, beat.pid, beat)
            for rank, beat in beats.items()
            if beat is not None
        }
        reports = self._arrivals.look(standings, {}, time.monotonic())
        self.rounds += any(report.facts.rank == 0 for report in reports)
        self.watch.take(reports, self._world)

    @property
    def announced(self) -> Straggler | None:
        self.look()
        return self.watch.announced

    @property
    def explained(self) -> Straggler | None:
        """The straggler once something differs on it: its facts are samples of the first seconds."""
        found = self.announced
        return found if found is not None and found.differences else None


@contextmanager
def training(folder: Path, text: str, world: int) -> Iterator[Ranks]:
    attempt = RunLayout(folder).attempt(1)
    script = folder / "script.py"
    script.write_text(BEGIN + text)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ours = {"TORCHDECK_RUN_DIR": str(folder), "TORCHDECK_ATTEMPT": "1", "GLOO_SOCKET_IFNAME": "lo"}
    gang = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(world)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(CORE)],
            env={**os.environ, **ours, **gang, "RANK": str(rank)},
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(world)
    ]
    try:
        yield Ranks(attempt, world)
    finally:
        for process in ranks:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [BY_DDP, BY_HAND], ids=["ddp", "by-hand"])
@pytest.mark.parametrize("slowness", SLOW, ids=lambda slowness: slowness.name)
def test_a_slow_rank_is_named(slowness: Slowness, kind: tuple[str, str], tmp_path: Path) -> None:
    with training(tmp_path, program(slowness, kind), 3) as ranks:
        found = wait_for_value(lambda: ranks.explained, 90, "a straggler and what differs on it")
    assert found.ranks == (1,), found
    assert found.share == pytest.approx(slowness.share, abs=0.15), found
    assert slowness.differs in sentence(found, {}), found


@pytest.mark.soak  # the journal's rank, below, is slow every time
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for each of two ranks")
def test_a_rank_whose_core_is_shared_is_named(tmp_path: Path) -> None:
    """Three busy processes have the same core."""
    with training(tmp_path, program(BUSY_NEIGHBOUR, BY_DDP), 2) as ranks:
        found = wait_for_value(lambda: ranks.explained, 90, "a straggler and what differs on it")
    assert found.ranks == (1,), found
    assert found.share > 0.1, found  # what else runs on the machine slows the other rank, too
    assert BUSY_NEIGHBOUR.differs in sentence(found, {}), found


@pytest.mark.parametrize("kind", [BY_DDP, pytest.param(BY_HAND, marks=pytest.mark.soak)])
def test_a_healthy_run_names_no_one(kind: tuple[str, str], tmp_path: Path) -> None:
    with training(tmp_path, program(HEALTHY, kind), 3) as ranks:
        wait_until(lambda: ranks.announced or ranks.rounds >= ROUNDS, 90, "reports")
        assert ranks.announced is None


def test_the_journal_names_the_rank_of_a_script(make_run: Maker) -> None:
    """A script that prints nothing; its data set is slow on one rank.

    What differs on it is told at once or later: the first facts may be of its imports.
    """
    text = program(SLOW[0], BY_DDP)
    run = make_run(text, nproc=3, policy=with_policy(), env=WITH_HEARTBEAT).start()
    told = run.wait("straggler", 150).fields
    assert told["ranks"] == [1], told
    assert told["share"] > 0.1, told  # what else runs on the machine slows the others, too
    wait_until(
        lambda: any(SLOW[0].differs in event.fields["detail"] for event in run.events("straggler")),
        60,
        f"a straggler and what differs on it: {run.events('straggler')}",
    )
