"""`torchdeck ckpt verify` and `export` of checkpoints that lie on two real hosts, a part on each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.training import Training

AcrossOf = Callable[..., HostsRun]
TWO = ("--set", 'distributed.nodes=["node1","node2"]')


@pytest.mark.soak  # test_script_checkpoints.py does the same with checkpoints of scripts
def test_a_checkpoint_is_verified_where_it_lies_and_brought_here_for_an_export(
    across: AcrossOf, tmp_path: Path
) -> None:
    """The damaged part is named with its node; an export of what is whole needs no other command before."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=6, every=3)
    done = hosts.command.run("--no-gui", "--trust", *TWO, training.write(0.01))
    assert done.returncode == 0, done.stdout + done.stderr
    run_id, ckpt = hosts.run.root.name, hosts.command
    (found,) = ckpt.json("ckpt", "verify", run_id)
    assert (found["step"], found["nodes"], found["problems"]) == (6, ["node1", "node2"], [])
    every = ckpt.run("ckpt", "verify", run_id, "--all")
    assert every.returncode == 0, every.stderr
    assert "step_00000003 on node1, node2: sound" in every.stdout
    assert not hosts.run.checkpoints.exists(), "nothing was brought here"

    older = hosts.on(2).checkpoints / "step_00000003"
    manifest = json.loads((older / "manifest.json").read_text())
    name = next(name for name, file in manifest["files"].items() if file["node"] == manifest["node"])
    whole = (older / name).read_bytes()
    (older / name).write_bytes(bytes(len(whole)))
    damaged = ckpt.run("ckpt", "verify", run_id, "3")
    assert damaged.returncode == 1, damaged.stderr
    assert "step_00000003 on node1, node2: damaged" in damaged.stdout
    assert f"node node2: {hosts.on(2).root.name}" in damaged.stdout.replace(str(older.parents[2]) + "/", "")
    assert f"{name} is damaged" in damaged.stdout

    out = tmp_path / "out"
    exported = ckpt.run("ckpt", "export", run_id, "-o", out)
    assert exported.returncode == 0, exported.stderr
    assert "from its nodes to" in exported.stderr
    assert (out / "model.safetensors").stat().st_size > 0
    assert ckpt.run("ckpt", "verify", run_id).stdout.startswith("final: sound\n")
    refused = ckpt.run("ckpt", "export", run_id, "3", "-o", tmp_path / "other")
    assert refused.returncode == 1
    assert "node node2" in refused.stderr
    assert not (tmp_path / "other").exists()
