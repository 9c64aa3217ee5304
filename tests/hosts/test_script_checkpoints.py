"""Checkpoints that a script saves by itself on two real hosts, each on its own disk."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun

AcrossOf = Callable[..., HostsRun]
SCRIPT = """
import os, sys
from pathlib import Path
rank = int(os.environ["RANK"])
print("from", *sys.argv[1:], flush=True)
if len(sys.argv) == 1:
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for step in (2, 4):
        dist.barrier()
        if step == 4 and rank == 1:
            break
        folder = Path("out") / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (folder / "weights.bin").write_bytes(bytes(range(256)) * 4096)
        (folder / f"random_states_{rank}.pkl").write_bytes(b"never read")
    dist.barrier()  # a failure before would end the other rank
    raise RuntimeError("a failure")
"""
RUN = """
name = "saves"
[run]
script = "train.py"
[distributed]
nodes = ["node1", "node2"]
nproc = 1
devices = "cpu"
"""


def failed_run(hosts: HostsRun, folder: Path) -> str:
    """A run that saved checkpoint-2 on both hosts and checkpoint-4 on the first, and failed."""
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "run.toml").write_text(RUN)
    done = hosts.command.run("--no-gui", "--trust", folder / "run.toml")
    assert done.returncode == 1, done.stdout + done.stderr
    return hosts.run.root.name


@pytest.mark.soak  # how they agree on it: tests/agent/gang_nodes
def test_both_hosts_continue_from_the_newest_that_each_has(across: AcrossOf, tmp_path: Path) -> None:
    """By the arguments that `runs resume` is given, as nothing else says how; at the same step."""
    hosts = across(2)
    run = failed_run(hosts, tmp_path / "project")
    refused = hosts.command.run("runs", "resume", run)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "-- ARGS" in refused.stderr
    resumed = hosts.command.run("runs", "resume", run, "--", "--from", "@{checkpoint}")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    for host in (1, 2):
        second = hosts.events(host, "attempt_started")[1].fields
        assert (Path(second["resume"]).name, second["resume_step"]) == ("checkpoint-2", 2)
        own = hosts.on(host).attempt(2).rank(host - 1).stdout.read_text()
        assert own == f"from --from {second['resume']}\n"
        assert Path(second["resume"]).is_relative_to(hosts.on(host).root)


def test_checkpoints_on_hosts_are_listed_verified_brought_here_and_exported(
    across: AcrossOf, tmp_path: Path
) -> None:
    """Where they lie, or by a copy, which takes the place of the one on the host; never unpickled."""
    hosts = across(2)
    run = failed_run(hosts, tmp_path / "project")
    ckpt = hosts.command
    listed = ckpt.json("ckpt", "list", run)
    size = (hosts.on(1).code / "out/checkpoint-2/weights.bin").stat().st_size + 10 + len("never read")
    assert sorted((row["name"], row["step"], row["node"], row["size"]) for row in listed) == [
        ("checkpoint-2", 2, "node1", size),
        ("checkpoint-2", 2, "node2", size),
        ("checkpoint-4", 4, "node1", size),
    ]
    assert {row["path"] for row in listed if row["step"] == 4} == {str(hosts.on(1).code / "out/checkpoint-4")}
    verified = ckpt.json("ckpt", "verify", run, "4")
    assert [(row["nodes"], row["sound"], row["problems"]) for row in verified] == [(["node1"], None, [])]
    assert verified[0]["unchecked"], "its weights have no checksum"

    pulled = ckpt.json("runs", "pull", run, "--checkpoints", "2")
    # either host may have saved first
    assert sorted((row["what"], row["new"]) for row in pulled["pulled"]) == [
        ("checkpoint-2 of node1", True),
        ("checkpoint-2 of node2", True),
    ]
    assert pulled["problems"] == []
    copy = hosts.run.checkpoints / "node2/code/out/checkpoint-2"
    there = hosts.on(2).code / "out/checkpoint-2"
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        path.name: path.read_bytes() for path in there.iterdir()
    }
    again = ckpt.json("runs", "pull", run, "--checkpoints", "2")
    assert not any(row["new"] for row in again["pulled"])
    rows = {(row["step"], row["node"], row["path"]) for row in ckpt.json("ckpt", "list", run)}
    assert rows == {
        (4, "node1", str(hosts.on(1).code / "out/checkpoint-4")),
        (2, "", str(copy)),
        (2, "", str(hosts.run.checkpoints / "node1/code/out/checkpoint-2")),
    }
    shutil.rmtree(there)
    assert ckpt.json("ckpt", "verify", run, "2")[0]["problems"] == [], "the copy is verified"

    damaged = hosts.on(1).code / "out/checkpoint-4/model.safetensors"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:5])
    found = ckpt.run("ckpt", "verify", run, "4")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "checkpoint-4 on node1: damaged\n  checkpoint-4/model.safetensors" in found.stdout
    damaged.write_bytes(whole)
    exported = ckpt.run("ckpt", "export", run, "4", "-o", tmp_path / "out")
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.safetensors"]
    assert (tmp_path / "out/model.safetensors").read_bytes() == whole


@pytest.mark.soak  # test_pull.py continues transfers of other checkpoints
def test_a_transfer_that_was_cut_off_continues(across: AcrossOf, tmp_path: Path) -> None:
    """What is here is not brought again; nothing is in place before all is."""
    hosts = across(2)
    run = failed_run(hosts, tmp_path / "project")
    source = hosts.on(1).code / "out/checkpoint-4"
    place = hosts.run.checkpoints / "node1/code/out/checkpoint-4"
    staging = place.parent / ".pulling-checkpoint-4/checkpoint-4"
    staging.mkdir(parents=True)
    shutil.copy2(source / "model.safetensors", staging)
    weights = (source / "weights.bin").stat()
    part = staging / f"weights.bin.{weights.st_size}-{weights.st_mtime_ns}.part"
    part.write_bytes((source / "weights.bin").read_bytes()[:1000])
    (staging / "of_another_save.bin").write_bytes(b"old")
    before = (staging / "model.safetensors").stat().st_ino
    pulled = hosts.command.run("runs", "pull", run)
    assert pulled.returncode == 0, pulled.stdout + pulled.stderr
    assert (place / "model.safetensors").stat().st_ino == before
    assert sorted(path.name for path in place.iterdir()) == sorted(path.name for path in source.iterdir())
    assert (place / "weights.bin").read_bytes() == (source / "weights.bin").read_bytes()
    assert not staging.parent.exists()
    assert not (hosts.run.root / "pulled/node1/code/out").exists(), "checkpoints are brought if asked for"
    unknown = hosts.command.run("runs", "pull", run, "--checkpoints", "7")
    assert unknown.returncode == 3
    assert "there are: checkpoint-2, checkpoint-4" in unknown.stderr
