"""Checkpoints that lie on two real hosts, a part on each, brought into one folder here."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.cli.command import Command
from support.hosts.hosts import TestHosts
from torchdeck.config.loader import load_config
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.manifest import FileEntry, Manifest, read_manifest
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.launcher import LaunchRecord, create_run
from torchdeck.launching.prepare import cluster_facts, plan_from
from torchdeck.nodes.connector import Connector

HostsOf = Callable[..., TestHosts]
RUN = '[run]\nscript = "train.py"\n[distributed]\nnodes = ["node1", "node2"]\nnproc = 1\ndevices = "cpu"\n'
PARTS = {"rank_0.bin": os.urandom(3_000_017), "rank_1.bin": os.urandom(1_234_567)}


@pytest.fixture
def run(hosts: HostsOf, torchdeck_home: Path, tmp_path: Path) -> tuple[Command, RunLayout, list[RunLayout]]:
    """The command, a run that was never started, and its directories on two hosts with two checkpoints."""
    made = hosts(2)
    (torchdeck_home / "nodes.toml").write_text(made.nodes_toml())
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run.toml").write_text(RUN)
    config = load_config(tmp_path / "run.toml").config
    plan = plan_from(
        config, cluster_facts(config, looks=FactSources(torchdeck_home, Connector(torchdeck_home)))
    )
    layout = create_run(plan, LaunchRecord(RUN), torchdeck_home)
    there = [RunLayout(made.home(host) / ".local/share/torchdeck/runs" / layout.root.name) for host in (1, 2)]
    for host, each in enumerate(there):
        for step in (10, 20):
            lay_part(each.checkpoints / f"step_{step:08d}", host, step, layout.root.name)
        each.plan.write_bytes(layout.plan.read_bytes())
    return Command(torchdeck_home), layout, there


def lay_part(folder: Path, host: int, step: int, run_id: str) -> None:
    """One host's part of a checkpoint, as a save on disks of their own leaves it."""
    names = ("node 0 (a)", "node 1 (b)")
    files = {
        name: FileEntry(len(data), hashlib.sha256(data).hexdigest(), names[rank])
        for rank, (name, data) in enumerate(PARTS.items())
    }
    manifest = Manifest(
        step=step,
        world_size=2,
        strategy="ddp",
        run_id=run_id,
        attempt=1,
        created=1e9,
        seconds=1.0,
        position={},
        model_fingerprint="0" * 64,
        files=files,
    )
    folder.mkdir(parents=True)
    name, data = list(PARTS.items())[host]
    (folder / name).write_bytes(data)
    (folder / "manifest.json").write_bytes(replace(manifest, node=names[host]).render())


def test_parts_become_one_checkpoint(run: tuple[Command, RunLayout, list[RunLayout]], tmp_path: Path) -> None:
    """The newest by default, all of them when asked; sound by their hashes; not brought twice."""
    command, layout, _ = run
    first = command.json("runs", "pull", layout.root.name)
    assert [(each["what"], each["new"]) for each in first["pulled"]] == [("step_00000020", True)]
    assert first["pulled"][0]["size"] == sum(map(len, PARTS.values()))
    (found,) = list_checkpoints(layout.checkpoints)
    assert (found.step, found.complete) == (20, True)
    assert verify(found.path) == []
    assert {name: (found.path / name).read_bytes() for name in PARTS} == PARTS
    assert sorted(path.name for path in layout.checkpoints.iterdir()) == ["step_00000020"]

    again = command.json("runs", "pull", layout.root.name, "--checkpoints", "all", "--to", tmp_path / "to")
    assert [each["what"] for each in again["pulled"]] == ["step_00000010", "step_00000020"]
    assert verify(tmp_path / "to/checkpoints/step_00000010") == []
    assert not any(each["new"] for each in command.json("runs", "pull", "latest")["pulled"])


def test_copies_stand_in_for_a_lost_part(run: tuple[Command, RunLayout, list[RunLayout]]) -> None:
    """One node has all of it (checkpoint.replicas); here it is a checkpoint like any other."""
    command, layout, there = run
    source = there[0].checkpoints / "step_00000020"
    said = read_manifest(source)
    files = {
        name: replace(entry, copies=tuple({"node 0 (a)", "node 1 (b)"} - {str(entry.node)}))
        for name, entry in said.files.items()
    }
    for name, data in PARTS.items():
        (source / name).write_bytes(data)
    (source / "manifest.json").write_bytes(replace(said, files=files, version=3).render())
    shutil.rmtree(there[1].checkpoints)
    assert command.json("runs", "pull", layout.root.name)["problems"] == []
    found = layout.checkpoints / "step_00000020"
    assert verify(found) == []
    manifest = read_manifest(found)
    assert (manifest.node, manifest.has_copies, manifest.version) == (None, False, 2)


def test_what_was_cut_off_goes_on(run: tuple[Command, RunLayout, list[RunLayout]]) -> None:
    """What is here already is not brought again; a beginning from another save is found out and replaced."""
    command, layout, there = run
    staging = layout.checkpoints / ".pulling-step_00000020"
    staging.mkdir(parents=True)
    (staging / "rank_0.bin").write_bytes(PARTS["rank_0.bin"][:2_000_000])
    (staging / "rank_1.bin").write_bytes(b"of another save")
    # the beginning of the first part comes no more from the host: it is another one there
    lost = there[0].checkpoints / "step_00000020" / "rank_0.bin"
    lost.write_bytes(bytes(2_000_000) + PARTS["rank_0.bin"][2_000_000:])
    assert command.json("runs", "pull", layout.root.name)["problems"] == []
    assert verify(layout.checkpoints / "step_00000020") == []


def test_what_is_not_whole_is_not_put_in_place(run: tuple[Command, RunLayout, list[RunLayout]]) -> None:
    """A damaged part is named with its node; a step that is not there, with those that are."""
    command, layout, there = run
    damaged = there[1].checkpoints / "step_00000020" / "rank_1.bin"
    damaged.write_bytes(bytes(len(PARTS["rank_1.bin"])))
    refused = command.run("runs", "pull", layout.root.name, "--json")
    assert refused.returncode == 3
    (problem,) = json.loads(refused.stdout)["problems"]
    assert "node node2" in problem
    assert "rank_1.bin" in problem
    assert list_checkpoints(layout.checkpoints) == []
    absent = command.run("runs", "pull", layout.root.name, "--checkpoints", "30")
    assert absent.returncode == 3
    assert "step_00000010, step_00000020" in absent.stderr
