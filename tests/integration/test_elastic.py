"""Real three-rank training that loses a rank for good, and finishes on two."""

from pathlib import Path
from typing import Any

from support.command import Command, agent_events
from support.training import Training, losses
from torchdeck.distributed.checkpoints.manifest import list_checkpoints
from torchdeck.plan.torchrun import RANK_ORDER
from torchdeck.rundir.atomic import read_json
from torchdeck.rundir.layout import RunLayout

SAMPLES = 252
"""An epoch of 21 steps of 12 samples."""
DIES = """

import os
import signal

_whole = loss
_attempt, _three = os.environ["TORCHDECK_ATTEMPT"], os.environ["WORLD_SIZE"] == "3"
_left = [{left} if _attempt == "1" else 0]


def loss(model, batch):
    \"\"\"As it was; but the process at local rank {rank} of three dies in it, in every attempt.\"\"\"
    _left[0] -= model.training
    if _three and os.environ["LOCAL_RANK"] == "{rank}" and _left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return _whole(model, batch)
"""


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
    assert (check["epochs"], check["equal"], audit["steps"], audit["predicted_steps"]) == (
        1,
        True,
        steps,
        steps,
    )


def test_a_run_that_loses_a_rank_for_good_finishes_on_the_others(tmp_path: Path) -> None:
    """Killed whenever it comes up, the second of three ranks is given up; the global batch is kept, and
    every sample of the epoch is used exactly once.
    """
    command = Command(tmp_path / "home")
    settings = ("training.microbatch=2", "training.accumulation=2", "launch.max_restarts=3")
    run, output = started(command, tmp_path / "work", *settings, "launch.restart_delay=0.1", rank=1, left=10)
    view = command.json("runs", "show", run.root.name)
    assert (view["state"], view["world_size"]) == ("SUCCEEDED", 3)
    sizes = [
        (at["reason"], at["world_size"], at["accumulation"], at["global_batch"]) for at in view["attempts"]
    ]
    assert sizes == [("first", 3, 2, 12), ("restart", 3, 2, 12), ("smaller", 2, 3, 12)]
    assert [at["resume_step"] for at in view["attempts"]] == [None, 4, 4]
    assert [at["first_failure"] and at["first_failure"]["rank"] for at in view["attempts"]] == [1, 1, None]
    why = "local rank 1 on localhost: it failed twice with no new checkpoint in between"
    assert [at["given_up"] for at in view["attempts"]] == ["", "", why]
    assert_each_sample_once(view["audit"], steps=21)
    assert sorted(losses(run)) == list(range(1, 22))

    saved = list_checkpoints(run.checkpoints)
    assert {found.manifest.world_size for found in saved if found.manifest is not None} == {2}

    plan = read_json(run.attempt(3).plan)
    assert (plan["world_size"], len(plan["ranks"]), plan["batch"]["accumulation"]) == (2, 2, 3)
    assert "smaller" not in plan
    shown = command.run("runs", "show", run.root.name).stdout
    for text in (f"goes on without {why}", "2 ranks × accumulation 3, global batch 12", "each sample once"):
        assert text in shown
    assert f"without {why}" in output
    assert "2 ranks of 3" in output


def test_a_global_batch_that_cannot_be_divided_is_said(tmp_path: Path) -> None:
    """Three microbatches a step become four on two ranks: in the plan, the journal and `runs show`; the
    learning rate follows, and each sample counts once all the same. Shards
    of three ranks become shards of two; under torchrun's c10d, which is labelled.
    """
    command = Command(tmp_path / "home")
    settings = ('training.scaling="linear"', "training.reference_batch=12", "launch.max_restarts=0")
    how = ('distributed.rendezvous.backend="c10d"', "distributed.strategy=fsdp")
    run, _ = started(command, tmp_path / "work", *settings, *how, "launch.restart_delay=0.1", rank=2, left=5)
    said = (
        "at 2 ranks the global batch is 16 samples in place of 12: 3 microbatches cannot be divided evenly "
        "among them, so each makes 2; lr 0.01 becomes 0.0133333 (linear in the global batch)"
    )
    assert said in read_json(run.plan)["warnings"]
    assert [list(event.fields["notes"]) for event in agent_events(run, "attempt_started")] == [
        [],
        [RANK_ORDER, said],
    ]
    shown = command.run("runs", "show", run.root.name).stdout
    assert said in shown
    assert shown.count("rank order not guaranteed") == 2
    view = command.json("runs", "show", run.root.name)
    assert [at["global_batch"] for at in view["attempts"]] == [12, 16]
    assert [at["resume_step"] for at in view["attempts"]] == [None, 4]
    assert_each_sample_once(view["audit"], steps=4 + -(-(SAMPLES - 4 * 12) // 16))
