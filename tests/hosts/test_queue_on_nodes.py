"""A queue whose run starts on the nodes that are free."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.waiting import wait_until


def test_a_run_is_bound_to_nodes_when_it_starts(
    across: Callable[..., HostsRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for any two nodes; it was planned and checked on them before."""
    hosts = across(2)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("train.py").write_text("print('trained')\n")
    added = hosts.command.run("queue", "add", "--script", "train.py", "--nproc", "1", "--nodes", "any:2")
    assert added.returncode == 0, added.stderr
    assert "1 rank on node1 (cpu); 1 rank on node2 (cpu)" in added.stdout
    with hosts.command.start("queue", "serve"):
        wait_until(
            lambda: hosts.command.json("queue", "list")["entries"][0]["stage"] == "ended", 120, "its end"
        )
    (entry,) = hosts.command.json("queue", "list")["entries"]
    assert entry["outcome"] == "SUCCEEDED"
    assert [place["node"] for place in entry["places"]] == ["node1", "node2"]
    assert (hosts.on(1).root / "plan.json").is_file()
    assert (hosts.on(2).root / "plan.json").is_file()
    hosts.wait_empty()
