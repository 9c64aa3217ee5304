"""Scripts on nodes that share no disk continue together from their own checkpoints, or not at all."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.agents.agent_run import with_policy
from support.agents.gang_run import GangRun
from support.agents.gang_scripts import Maker
from torchdeck.contract.plan.launch_plan import LaunchPlan

SAVES = """
import json, os, sys, time
from pathlib import Path
out, saves, first, last = Path(sys.argv[1]), sys.argv[2:4], int(sys.argv[4]), int(sys.argv[5])
begun = sys.argv[6:]
print("from", *begun)
if not begun:
    for step in saves[int(os.environ["RANK"])].replace(".", "").split(","):
        if not step:
            continue
        folder = out / f"checkpoint-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_bytes(bytes(64))
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": int(step)}))
    Path("saved-" + os.environ["RANK"]).touch()  # of the folder that both ranks work in
    while len(list(Path().glob("saved-*"))) < 2:
        time.sleep(0.02)
    raise RuntimeError("a failure")
"""


def made(
    make_gang: Maker, saves: tuple[str, str], restarts: int, *resume_args: str, shared: bool = False
) -> GangRun:
    """Two nodes, whose ranks save these steps and then fail, and which continue if they are told to."""

    def change(plan: LaunchPlan) -> LaunchPlan:
        folder = plan.nodes[0].working_dir if shared else "@{run_dir}"
        words = (f"{folder}/out", *saves, "0", "0")
        nodes = tuple(replace(node, command=(*node.command, *words)) for node in plan.nodes)
        arguments: dict[str, Any] = {"resume_args": resume_args, "resume_by": "arguments"}
        return replace(plan, nodes=nodes, checkpoint=replace(plan.checkpoint, **arguments))

    return make_gang(SAVES, policy=with_policy(max_restarts=restarts), change=change)


def out(run: GangRun, name: str) -> Path:
    return run.layouts[name].root / "out"


def test_the_newest_that_is_complete_on_each_node_decides(make_gang: Maker) -> None:
    """Each node continues from its own folder, at the same step, however new another is."""
    run = made(make_gang, ("2,4", "2"), 1, "--from", "@{checkpoint}").start()
    assert run.finished()["state"] == "SUCCEEDED", run.describe()
    for rank, name in enumerate(run.names):
        assert run.stdout(rank, attempt=2) == f"from --from {out(run, name)}/checkpoint-2\n"
        second = run.events("attempt_started", node=name)[1].fields
        assert (second["resume_step"], second["resume"]) == (2, str(out(run, name) / "checkpoint-2"))


def test_what_one_rank_saves_on_a_shared_disk_is_there_for_all(make_gang: Maker) -> None:
    run = made(make_gang, ("2,4", "."), 1, "--from", "@{checkpoint}", shared=True).start()
    assert run.finished()["state"] == "SUCCEEDED", run.describe()
    path = Path(run.plan.nodes[0].working_dir) / "out/checkpoint-4"
    for rank in (0, 1):
        assert run.stdout(rank, attempt=2) == f"from --from {path}\n"


def test_a_node_without_the_checkpoint_refuses_a_restart_until_it_has_it(make_gang: Maker) -> None:
    """Rank 0 alone saves, and all ranks read: nothing begins from scratch, and the copy is used."""
    run = made(make_gang, ("2,4", "."), 1, "--from", "@{checkpoint}").start()
    finished = run.finished()
    assert (finished["state"], finished["resumable"]) == ("FAILED", True)
    assert "alpha has checkpoint-4, checkpoint-2; beta has none" in finished["why"]
    assert "Copy checkpoint-4 to the same folder on beta" in finished["why"]
    assert not any(len(run.events("attempt_started", node=name)) > 1 for name in run.names)
    shutil.copytree(out(run, "alpha"), out(run, "beta"), copy_function=shutil.copy)
    run.start_agent("alpha", session=1)
    listening = run.wait("listening", count=2).fields
    run.leader_address = (str(listening["address"]), int(listening["port"]))
    run.start_agent("beta", session=1)
    assert run.wait("finished", count=2).fields["state"] == "SUCCEEDED"
    number = run.events("attempt_started")[-1].fields["attempt"]
    assert run.stdout(1, attempt=number) == f"from --from {out(run, 'beta')}/checkpoint-4\n"


def test_a_script_that_looks_itself_must_find_the_same_on_each_node(make_gang: Maker) -> None:
    """Its newest would be another one on the first node."""
    run = made(make_gang, ("2,4", "2"), 1, "--init_from=resume").start()
    why = run.finished()["why"]
    assert "uses the newest checkpoint that it finds" in why
    assert "checkpoint-4 is not complete on every node" in why
