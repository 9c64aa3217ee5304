"""Checkpoints on nodes that share no disk: what all have is gone on from."""

from __future__ import annotations

from dataclasses import replace

from support.agents.gang_run import GangRun
from support.agents.gang_scripts import Maker
from support.values.checkpoint_files import save_of
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, read_manifest


def checkpoints(run: GangRun, name: str, *steps: int, copies: bool = False) -> None:
    """Sound checkpoints of the run on a node's own disk, of which each node has a file; with `copies` all."""
    others = tuple(run.names) if copies else ()
    for step in steps:
        folder = save_of(run.layouts[name].checkpoints, step, run.run_id)
        files = {
            file: replace(entry, node=node, copies=tuple(other for other in others if other != node))
            for node, (file, entry) in zip(run.names, read_manifest(folder).files.items(), strict=False)
        }
        manifest = replace(read_manifest(folder), node=name, files=files, version=3 if copies else 2)
        write_bytes(folder / MANIFEST_NAME, manifest.render())


def test_nodes_resume_from_the_newest_that_each_has(make_gang: Maker) -> None:
    """On disks of their own: the newest of one node lacks its part on the other, the one before is taken."""
    run = make_gang("import os; print('resume', os.environ['TORCHDECK_RESUME'])")
    checkpoints(run, "alpha", 3, 5)
    checkpoints(run, "beta", 3)
    assert run.start().finished()["state"] == "SUCCEEDED"
    point = run.wait("launching").fields["resume"]
    assert (point["source"], point["name"], point["step"]) == ("own", "step_00000003", 3)
    assert (point["parts"], point["here"]) == (["alpha", "beta"], [])
    for rank, name in enumerate(run.names):
        folder = run.layouts[name].checkpoints / "step_00000003"
        assert run.stdout(rank) == f"resume {folder}\n"
        assert run.events("attempt_started", node=name)[0].fields["resume_step"] == 3


def test_a_node_without_any_part_goes_on_from_copies(make_gang: Maker) -> None:
    """The other one has all of it; that this one has no such folder is for its ranks to cope with."""
    run = make_gang("import os; print('resume', os.environ['TORCHDECK_RESUME'])")
    checkpoints(run, "beta", 3, copies=True)
    assert run.start().finished()["state"] == "SUCCEEDED"
    for rank, name in enumerate(run.names):
        assert run.stdout(rank) == f"resume {run.layouts[name].checkpoints / 'step_00000003'}\n"


def test_a_node_without_its_part_refuses_the_start(make_gang: Maker) -> None:
    """With who has what, and nothing is started anywhere."""
    run = make_gang("print('never')")
    checkpoints(run, "alpha", 3)
    finished = run.start().finished()
    assert finished["state"] == "FAILED"
    assert "alpha has step_00000003; beta has none" in finished["why"]
    assert not any(run.events("attempt_started", node=name) for name in run.names)
