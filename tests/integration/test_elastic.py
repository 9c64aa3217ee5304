"""Real three-rank runs that lose a rank for good, and finish on two."""

from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command, agent_events
from support.training.training import Training, losses
from torchdeck.contract.atomic import read_json
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.layout import RunLayout
from torchdeck.plan.node_commands import RANK_ORDER

SAMPLES = 252
"""An epoch of 21 steps of 12 samples."""
DIES = """

import os
import signal

_whole = loss
_three = os.environ["WORLD_SIZE"] == "3"
_left = [{left}]


def loss(model, batch):
    \"\"\"As it was; but the process at local rank {rank} of three dies in it after some microbatches.\"\"\"
    _left[0] -= model.training
    if _three and os.environ["LOCAL_RANK"] == "{rank}" and _left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return _whole(model, batch)
"""
SCRIPT = """\
import os, signal

print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
if os.environ["WORLD_SIZE"] == "3":
    while os.environ["LOCAL_RANK"] != "1":
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)
"""
NO_OTHER_TRY = "it failed, and launch.max_restarts = 0 allows no other try at this size"


def started(command: Command, folder: Path, *settings: str, rank: int, left: int) -> tuple[RunLayout, str]:
    """A run of one epoch that ended well, though a rank died after `left` microbatches; what it said."""
    file = Training(folder, every=4).write(0.0)
    text = file.read_text().replace("steps = 40\n", "epochs = 1\n").replace("eval_every = 10\n", "")
    file.write_text(text.replace("nproc = 2\n", 'nproc = "2:3"\n'))
    recipe = file.parent / "paced_recipe.py"
    recipe.write_text(recipe.read_text() + DIES.format(rank=rank, left=left))
    sets = [word for setting in (f"data.samples={SAMPLES}", *settings) for word in ("--set", setting)]
    done = command.run("--no-gui", "--trust", *sets, file, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return command.runs()[-1], done.stdout


def assert_each_sample_once(audit: dict[str, Any], *, steps: int) -> None:
    check = audit["samples"]
    assert check["defects"] == check["unknown"] == []
    assert (check["first_step"], check["last_step"], check["samples"]) == (1, steps, SAMPLES)
    assert (check["epochs"], check["equal"]) == (1, True)
    assert (audit["steps"], audit["predicted_steps"]) == (steps, steps)


@pytest.mark.soak  # tests/agent/test_agent_elastic.py leaves ranks out every time
def test_a_run_that_loses_a_rank_for_good_finishes_on_the_others(tmp_path: Path) -> None:
    """The second of three ranks is killed and given up: shards of three become shards of two, the global
    batch is kept, and every sample of the epoch is used exactly once.
    """
    command = Command(tmp_path / "home")
    settings = ("training.microbatch=2", "training.accumulation=2", "distributed.strategy=fsdp")
    run, output = started(command, tmp_path / "work", *settings, rank=1, left=10)
    view = command.json("runs", "show", run.root.name)
    assert (view["state"], view["world_size"]) == ("SUCCEEDED", 3)
    assert view["why"] == "all ranks finished, 2 in place of 3"
    sizes = [
        (at["reason"], at["world_size"], at["accumulation"], at["global_batch"]) for at in view["attempts"]
    ]
    assert sizes == [("first", 3, 2, 12), ("smaller", 2, 3, 12)]
    assert [at["resume_step"] for at in view["attempts"]] == [None, 4]
    assert [at["first_failure"] and at["first_failure"]["rank"] for at in view["attempts"]] == [1, None]
    why = f"local rank 1 on localhost: {NO_OTHER_TRY}"
    assert [at["given_up"] for at in view["attempts"]] == ["", why]
    assert_each_sample_once(view["audit"], steps=21)
    assert sorted(losses(run)) == list(range(1, 22))

    saved = list_checkpoints(run.checkpoints)
    assert {found.manifest.world_size for found in saved if found.manifest is not None} == {2}

    plan = read_json(run.attempt(2).plan)
    assert (plan["world_size"], len(plan["ranks"]), plan["batch"]["accumulation"]) == (2, 2, 3)
    assert "smaller" not in plan
    shown = command.run("runs", "show", run.root.name).stdout
    for text in (f"continues without {why}", "2 ranks × accumulation 3, global batch 12", "each sample once"):
        assert text in shown
    assert f"without {why}" in output
    assert "2 ranks of 3" in output


@pytest.mark.soak
def test_each_sample_counts_once_where_the_global_batch_cannot_be_kept(tmp_path: Path) -> None:
    """Three microbatches a step become four on two ranks; it fails twice before it is given up."""
    command = Command(tmp_path / "home")
    settings = ('training.scaling="linear"', "training.reference_batch=12", "launch.max_restarts=3")
    run, _ = started(command, tmp_path / "work", *settings, "launch.restart_delay=0.1", rank=2, left=2)
    said = (
        "at 2 ranks the global batch is 16 samples in place of 12: 3 microbatches cannot be divided evenly "
        "among them, so each makes 2; lr 0.01 becomes 0.0133333 (linear in the global batch)"
    )
    assert said in read_json(run.plan)["warnings"]
    notes = [list(event.fields["notes"]) for event in agent_events(run, "attempt_started")]
    assert notes == [[], [], [said]]
    assert said in command.run("runs", "show", run.root.name).stdout
    view = command.json("runs", "show", run.root.name)
    assert [at["global_batch"] for at in view["attempts"]] == [12, 12, 16]
    assert "it failed twice with no new checkpoint" in view["attempts"][-1]["given_up"]
    assert_each_sample_once(view["audit"], steps=-(-SAMPLES // 16))


@pytest.mark.soak
def test_under_c10d_a_script_goes_on_with_fewer_ranks(tmp_path: Path) -> None:
    """torchrun's own rendezvous, labelled in the plan and at each attempt."""
    command = Command(tmp_path / "home")
    (tmp_path / "work.py").write_text(SCRIPT)
    file = tmp_path / "run.toml"
    table = 'nproc = "2:3"\ndevices = "cpu"\nrendezvous = { backend = "c10d" }'
    trusted = "[launch]\ntrusted_network = true"
    file.write_text(f'name = "s"\n[run]\nscript = "work.py"\n[distributed]\n{table}\n{trusted}\n')
    done = command.run("--no-gui", "--trust", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {f"[rank {rank}] rank {rank} of 2" for rank in range(2)} <= set(done.stdout.splitlines())
    (run,) = command.runs()
    assert RANK_ORDER in read_json(run.plan)["warnings"]
    view = command.json("runs", "show", run.root.name)
    assert [(at["world_size"], at["rendezvous"]) for at in view["attempts"]] == [(3, "c10d"), (2, "c10d")]
    assert view["attempts"][1]["given_up"] == f"local rank 1 on localhost: {NO_OTHER_TRY}"
    shown = command.run("runs", "show", run.root.name).stdout
    assert shown.count("rank order not guaranteed") == 2
