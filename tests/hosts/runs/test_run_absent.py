"""Runs with a range of nodes, of which some do not answer at the start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.training import Training, losses

AcrossOf = Callable[..., HostsRun]
RANGE = ("--set", 'distributed.nodes="2:3"')


def test_a_run_starts_with_the_nodes_that_answer(across: AcrossOf, tmp_path: Path) -> None:
    """Two of three train, with the global batch of three: the second leads, as the first is off.

    That is named wherever the run is shown.
    """
    hosts = across(3, shared_home=True)
    hosts.made.power_off(1)
    training = Training(tmp_path / "work", nproc=1, steps=6, every=3)
    batch = ("--set", "training.microbatch=2", "--set", "training.accumulation=2")
    done = hosts.command.run("--no-gui", "--trust", *RANGE, *batch, training.write(0.0), timeout=240)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "node node1 is left out: " in said
    assert sorted(losses(hosts.run)) == list(range(1, 7))
    assert hosts.events(2, "launching")[0].fields["nodes"] == ["node2", "node3"]
    view = hosts.command.json("runs", "show", hosts.run.root.name)
    (attempt,) = view["attempts"]
    sizes = (attempt["world_size"], attempt["accumulation"], attempt["global_batch"])
    assert sizes == (2, 3, 12)
    assert any(text.startswith("node node1 is left out") for text in view["warnings"])
    assert "node node1 is left out" in hosts.command.run("runs", "show", hosts.run.root.name).stdout
    hosts.wait_empty()


@pytest.mark.soak
def test_any_of_the_named_nodes_will_do_also_without_the_first(across: AcrossOf, tmp_path: Path) -> None:
    """Two of three named nodes train: the second leads, as the first is off."""
    hosts = across(3, shared_home=True)
    hosts.made.power_off(1)
    training = Training(tmp_path / "work", nproc=1, steps=6, every=3)
    nodes = ("--set", 'distributed.nodes=["node[1-3]"]', "--set", "distributed.spare=1")
    done = hosts.command.run("--no-gui", "--trust", *nodes, training.write(0.0), timeout=240)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "node node1 is left out: " in said
    assert sorted(losses(hosts.run)) == list(range(1, 7))
    assert hosts.events(2, "launching")[0].fields["nodes"] == ["node2", "node3"]
    view = hosts.command.json("runs", "show", hosts.run.root.name)
    assert [attempt["world_size"] for attempt in view["attempts"]] == [2]
    assert any(text.startswith("node node1 is left out") for text in view["warnings"])
    hosts.wait_empty()


def test_too_few_answer(across: AcrossOf, tmp_path: Path) -> None:
    """Fewer than the range has: nothing starts, and every node that does not answer is named."""
    hosts = across(3, shared_home=True)
    hosts.made.power_off(1)
    hosts.made.power_off(2)
    refused = hosts.command.run(
        "--no-gui", "--trust", *RANGE, Training(tmp_path / "work", nproc=1).write(0.0)
    )
    said = refused.stdout + refused.stderr
    assert refused.returncode == 3, said
    assert "node node1" in said
    assert "node node2" in said
    assert hosts.command.runs() == []
