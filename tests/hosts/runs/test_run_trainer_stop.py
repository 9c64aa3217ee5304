"""A training by another project's trainer is stopped across hosts: all ranks save one checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.system.trainers_python import ABSENT, trainers_python
from support.training.inside_scripts import LIGHTNING, ScriptRun
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState

AcrossOf = Callable[..., HostsRun]


@pytest.mark.soak  # tests/trainers/inside/test_stop_agreement.py and test_run_training.py have its two parts
def test_two_nodes_with_two_ranks_each_stop_after_one_step(across: AcrossOf, tmp_path: Path) -> None:
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    hosts = across(2, entries={host: {"python": python} for host in (1, 2)})
    out = tmp_path / "checkpoints"
    program = LIGHTNING.replace("devices=2", f"devices=2, num_nodes=2, default_root_dir={str(tmp_path)!r}")
    config = ScriptRun(tmp_path / "project", tmp_path / "home").config(program, "2000", "0.05")
    nodes = ("--set", 'distributed.nodes=["node1","node2"]')
    with hosts.command.start("--no-gui", "--trust", *nodes, config) as front:
        hosts.wait_begun(front)
        hosts.wait_step(5)
        stopped = hosts.command.run("runs", "stop", hosts.run.root.name, timeout=120)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        output, _ = front.communicate(timeout=60)
    hosts.wait_empty()
    outputs = [hosts.run.attempt(1).rank(rank).stdout.read_text() for rank in range(4)]
    steps = {text.rpartition("ended at step ")[2].strip() for text in outputs}
    assert len(steps) == 1, outputs
    step = int(steps.pop())
    assert 5 <= step < 2000
    assert [path.name for path in out.iterdir()] == [f"epoch=0-step={step}.ckpt"]
    assert read_run(hosts.run).state is RunState.CANCELLED, output
