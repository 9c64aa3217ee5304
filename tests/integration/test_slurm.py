"""A plan as a job of a real Slurm: slurmctld and two slurmd on this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.hosts.slurm import SlurmCluster
from support.system.free_port import free_port
from support.values.machines import config, node, plan
from torchdeck.cli.main import main
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.plan.sbatch_script import export_sbatch

pytestmark = pytest.mark.slurm

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


def test_an_exported_plan_trains_under_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with SlurmCluster() as cluster:
        # each cluster's first job has the same number, and so the script would choose the same port
        env = {"THE_KEY": "canary", "RUN_DIR": str(run_dir), "PORT": str(free_port())}
        state, written, said = cluster.submit(script, env=env, limit=100)
    assert state == "COMPLETED", f"{said}\n{written}"
    for rank, name in enumerate(cluster.names):
        assert json.loads((run_dir / f"rank{rank}.json").read_text()) == [3.0, NASTY, name, "canary"]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.soak
def test_code_that_a_run_copies_is_taken_from_where_the_user_has_it(tmp_path: Path) -> None:
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
    with SlurmCluster() as cluster:
        env = {"THE_KEY": "canary", "RUN_DIR": str(run_dir), "PORT": str(free_port())}
        state, written, said = cluster.submit(script, env=env, limit=100)
    assert state == "COMPLETED", f"{said}\n{written}"
    for rank, name in enumerate(cluster.names):
        assert json.loads((run_dir / f"rank{rank}.json").read_text()) == [3.0, [], name, "canary"]
