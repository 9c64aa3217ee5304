"""Checkpoints on nodes that share no disk: what all have is gone on from."""

from __future__ import annotations

from support.checkpoint_files import save_of
from support.gang_run import GangRun
from support.gang_scripts import Maker


def checkpoints(run: GangRun, name: str, *steps: int) -> None:
    """Sound checkpoints of the run on a node's own disk."""
    for step in steps:
        save_of(run.layouts[name].checkpoints, step, run.run_id, node=name)


def test_nodes_resume_from_the_newest_that_each_has(make_gang: Maker) -> None:
    """On disks of their own: the newest of one node lacks its part on the other, the one before is taken."""
    run = make_gang("import os; print('resume', os.environ['TORCHDECK_RESUME'])")
    checkpoints(run, "alpha", 3, 5)
    checkpoints(run, "beta", 3)
    assert run.start().finished()["state"] == "SUCCEEDED"
    assert run.wait("launching").fields["resume"] == {"source": "own", "name": "step_00000003", "step": 3}
    for rank, name in enumerate(run.names):
        folder = run.layouts[name].checkpoints / "step_00000003"
        assert run.stdout(rank) == f"resume {folder}\n"
        assert run.events("attempt_started", node=name)[0].fields["resume_step"] == 3


def test_a_node_without_its_part_refuses_the_start(make_gang: Maker) -> None:
    """With who has what, and nothing is started anywhere."""
    run = make_gang("print('never')")
    checkpoints(run, "alpha", 3)
    finished = run.start().finished()
    assert finished["state"] == "FAILED"
    assert "alpha has step_00000003; beta has none" in finished["why"]
    assert not any(run.events("attempt_started", node=name) for name in run.names)
