"""A hang on several nodes: one verdict, by the leader, with the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents.agent_run import with_policy
from support.agents.gang_scripts import Maker
from support.doctor.faults import FAULTS, WITH_HEARTBEAT, lines
from support.doctor.programs import Place, program
from torchdeck.contract.atomic import read_json

pytest.importorskip("torch", reason="the ranks train with it")
pytestmark = [pytest.mark.doctor, pytest.mark.processes, pytest.mark.timeout(240)]


def test_the_leader_judges_for_all_nodes(make_gang: Maker, tmp_path: Path) -> None:
    """Rank 2 on the last node sleeps; the others' agents see theirs wait first, and accuse no one."""
    text = program("silent", FAULTS[0], Place(str(tmp_path / "began")), culprit=2, ranks=3)
    run = make_gang(text, nprocs=(1, 1, 1), policy=with_policy(hang_after=3.0), env=WITH_HEARTBEAT).start()
    told = run.wait("hang", 90).fields
    assert (told["kind"], told["rank"]) == ("elsewhere", 2)
    assert told["detail"].startswith(
        f"Rank 2 on gamma is in script.py:{lines(text)[0]} fault; ranks 0 and 1 wait"
    )
    for rank, name in enumerate(run.names):
        evidence = read_json(run.layouts[name].attempt(1).examination(told["examination"]).rank(rank))
        assert evidence["frames"], name
        assert name == "alpha" or not run.events("hang", node=name)
