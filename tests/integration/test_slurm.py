"""A plan as a job of a real Slurm: slurmctld and two slurmd on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.hosts.slurm import SlurmCluster
from support.system.free_port import free_port
from support.training.held_training import hold
from support.training.training import Training, assert_same_state, final_state, losses
from support.values.machines import config, node, plan
from support.waiting import wait_until
from torchdeck.cli.main import main
from torchdeck.contract.checkpoints.listing import newest_complete
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.plan.export.sbatch_script import export_sbatch
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.use_cases.elsewhere.job import attach_job

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster() as started:
        yield started


NASTY = ["it's", 'say "so"', "$(touch pwned)", "a\nNODE\nb", "dos\r\nline", ""]
TRAIN = """\
import json, os, sys
import torch, torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
found = [value.item(), sys.argv[1:], os.environ["TORCHDECK_NODE"], os.environ["THE_KEY"]]
with open(os.path.join(os.environ["TORCHDECK_RUN_DIR"], f"rank{dist.get_rank()}.json"), "w") as file:
    json.dump(found, file)
dist.destroy_process_group()
"""
RUN = """\
[run]
script = "train it.py"
args = {args}
secrets = ["THE_KEY"]

[run.env]
GLOO_SOCKET_IFNAME = "lo"

[distributed]
nproc = 1
devices = "cpu"

[[cluster.nodes]]
name = "n[1-2]"
cores = 1
"""


def test_an_exported_plan_trains_under_slurm(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch takes the script as it is; on two nodes the ranks meet, and argv arrives byte for byte."""
    monkeypatch.setenv("TORCHDECK_HOME", str(tmp_path / "home"))
    user = tmp_path / "user's folder"
    user.mkdir()
    (user / "train it.py").write_text(TRAIN)
    (user / "run.toml").write_text(RUN.format(args=json.dumps(NASTY)))
    script = tmp_path / "job.sbatch"
    assert main(["plan", str(user / "run.toml"), "--export", "sbatch", "--out", str(script)]) == 0
    assert "canary" not in script.read_text()
    run_dir = tmp_path / "run"
    # each cluster's first job has the same number, and so the script would choose the same port
    env = {"THE_KEY": "canary", "RUN_DIR": str(run_dir), "PORT": str(free_port())}
    state, written = cluster.submit(script, env=env, limit=100)
    assert state == "COMPLETED", written
    for rank, name in enumerate(cluster.names):
        assert json.loads((run_dir / f"rank{rank}.json").read_text()) == [3.0, NASTY, name, "canary"]
    assert not list(tmp_path.rglob("pwned"))


JOB = """
[run.env]
GLOO_SOCKET_IFNAME = "lo"

[slurm]
time = "30"

[[cluster.nodes]]
name = "n[1-2]"
cores = 1
"""
HELD = 12
"""Step that a rank of a held job cannot end before its gate is there."""
SAVED = (HELD, HELD + 1)
"""Steps after which it may stop: rank 0 looks for the request once a step."""


class HeldJob:
    """A recipe on two nodes as a job; rank 1 of its first attempt waits in step `HELD` if it is `held`."""

    def __init__(self, cluster: SlurmCluster, folder: Path, *, held: bool = True) -> None:
        self.gate, self.run_dir = folder / "gate", folder / "run"
        file = Training(folder / "work", nproc=1).write(pace=0.0)
        file.write_text(file.read_text() + JOB)
        if held:
            hold(file, step=HELD, gate=self.gate)
        script = folder / "job.sbatch"
        assert main(["plan", str(file), "--trust", "--export", "sbatch", "--out", str(script)]) == 0
        env = {"RUN_DIR": str(self.run_dir), "PORT": str(free_port())}
        self._cluster, self.number = cluster, cluster.start(script, env=env)

    def interrupt(self, *command: str) -> None:
        """Signal the job while it trains; its ranks go on once they are asked to stop."""
        saved = self.run_dir / "checkpoints/step_00000010/manifest.json"
        wait_until(saved.exists, 100, "step 10 to be saved")
        self._cluster.run(*command, self.number)
        wait_until((self.run_dir / "attempts/1/stop").exists, 60, "the ranks to be asked to stop")
        self.gate.touch()

    def end(self) -> tuple[str, str]:
        return self._cluster.end_of(self.number, 100)

    @property
    def run(self) -> RunLayout:
        """The run that shows it."""
        return attach_job(self.run_dir)


def test_a_job_at_its_time_limit_is_requeued_and_one_that_is_cancelled_has_saved(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """USR1, which Slurm sends before the limit, leaves the training as it is; runs here show the jobs."""
    monkeypatch.setenv("TORCHDECK_HOME", str(tmp_path / "home"))
    alone = HeldJob(cluster, tmp_path / "alone", held=False)
    limited = HeldJob(cluster, tmp_path / "limited")
    cancelled = HeldJob(cluster, tmp_path / "cancelled")
    limited.interrupt("scancel", "--batch", "--signal=USR1")
    cancelled.interrupt("scancel")
    state, written = limited.end()
    assert (state, alone.end()[0]) == ("COMPLETED", "COMPLETED"), written
    assert losses(limited.run) == losses(alone.run)
    assert_same_state(final_state(limited.run, tmp_path), final_state(alone.run, tmp_path))
    view = read_run(limited.run)
    assert (view.state, view.job, view.agent_alive) == (RunState.SUCCEEDED, limited.number, False)
    first, second = view.attempts
    assert (first.outcome, second.outcome, first.resume_step) == ("stopped", "succeeded", None)
    assert second.resume_step in SAVED

    assert cancelled.end()[0] == "CANCELLED"
    saved = newest_complete(cancelled.run.checkpoints)
    assert saved is not None
    assert saved.step in SAVED
    capsys.readouterr()
    assert main(["runs", "show", str(cancelled.run_dir)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("CANCELLED  paced")
    assert f"step {saved.step}, {cancelled.run_dir}/checkpoints" in shown
    assert main(["runs", "logs", str(cancelled.run_dir)]) == 0
    assert "training was stopped and can be resumed" in capsys.readouterr().out


@pytest.mark.soak
def test_code_that_a_run_copies_is_taken_from_where_the_user_has_it(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """A plan for nodes over SSH, whose ranks would start in the run's copy, trains in CODE's default."""
    user = tmp_path / "user's folder"
    user.mkdir()
    (user / "train it.py").write_text(TRAIN)
    run = {"script": str(user / "train it.py"), "working_dir": str(user), "secrets": ["THE_KEY"]}
    asked = config(
        {**run, "env": {"GLOO_SOCKET_IFNAME": "lo"}},
        distributed={"nodes": ["a", "b"], "nproc": 1, "devices": "cpu"},
    )
    nodes = [replace(node(name, cores=1), remote=True) for name in ("a", "b")]
    code = CodeTree({"train it.py": "ab" * 32}, str(user), 7)
    made = plan(asked, *nodes, code=code, interpreter=probe_interpreter())
    assert {part.working_dir for part in made.nodes} == {"@{code}"}
    script, run_dir = tmp_path / "job.sbatch", tmp_path / "run"
    script.write_text(export_sbatch(made))
    env = {"THE_KEY": "canary", "RUN_DIR": str(run_dir), "PORT": str(free_port())}
    state, written = cluster.submit(script, env=env, limit=100)
    assert state == "COMPLETED", written
    for rank, name in enumerate(cluster.names):
        assert json.loads((run_dir / f"rank{rank}.json").read_text()) == [3.0, [], name, "canary"]
