"""Long pauses that are no hangs: with a limit of two seconds none of them is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents.agent_run import Maker, with_policy
from support.doctor.cases import SAMPLE, Case, of
from support.doctor.faults import WITH_HEARTBEAT
from support.doctor.measured import marked, measured
from support.doctor.programs import REPORTS

pytest.importorskip("torch", reason="the ranks train with it")
pytestmark = [pytest.mark.doctor, pytest.mark.processes, pytest.mark.timeout(240)]


@pytest.mark.parametrize("case", marked(of(*REPORTS, hangs=False)))
def test_a_long_pause_is_no_hang(case: Case, make_run: Maker, tmp_path: Path) -> None:
    policy = with_policy(hang_after=2.0, on_hang="stop")
    with measured(case, tmp_path) as program:
        run = make_run(program.text, nproc=case.ranks, policy=policy, env=WITH_HEARTBEAT).start()
        state = run.finished(180)["state"]
        program.healthy(run.events("hang"), strict=case in SAMPLE)
    assert state == "SUCCEEDED" or run.events("hang"), run.describe()
