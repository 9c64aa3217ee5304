"""Environments that uv makes on nodes, from the files of a project that is sent there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HOME, HostsRun
from support.system.uv_projects import torch_wheel, uv_program, uv_project, wheel

AcrossOf = Callable[..., HostsRun]
SCRIPT = """
    import os, sys, tinypkg
    import torch.distributed as dist
    dist.init_process_group("gloo")
    print("rank", os.environ["RANK"], "has", tinypkg.VALUE, "in", sys.prefix, flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.soak  # a normal run makes one on this machine: tests/integration/test_uv_environment.py
def test_each_node_makes_its_environment_before_the_ranks_start(across: AcrossOf, tmp_path: Path) -> None:
    """In its own home, where uv's installer has put uv; a node without uv is refused with what to do."""
    torch_wheel(tmp_path / "wheels")
    wheel(tmp_path / "wheels", "tinypkg", "1.0", {"tinypkg.py": "VALUE = 'one'\n"})
    file = uv_project(tmp_path / "project", tmp_path / "wheels", SCRIPT, "torch", "tinypkg")
    hosts = across(2)
    start = ("--no-gui", "--trust", "--set", 'distributed.nodes=["node1", "node2"]', str(file))
    place_uv(hosts, 1)
    refused = hosts.command.run(*start, timeout=180)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert re.search(r"node2.*there is no uv", refused.stdout + refused.stderr)
    assert "pip install --user uv" in refused.stdout + refused.stderr
    place_uv(hosts, 2)
    check = ("check", "--set", 'distributed.nodes=["node1", "node2"]', str(file))
    assert (
        "uv makes the environment on node1, node2 at the start"
        in hosts.command.run(*check, timeout=180).stdout
    )
    done = hosts.command.run(*start, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    for host in (1, 2):
        home = hosts.made.home(host) / HOME / "environments"
        (environment,) = [path for path in home.iterdir() if path.is_dir()]
        assert f"rank {host - 1} has one in {environment}" in done.stdout
        said = [str(event.fields["text"]) for event in hosts.events(host, "environment")]
        assert said[-1] == ""
        assert len(said) > 1
    plan = hosts.command.run("plan", "--set", 'distributed.nodes=["node1", "node2"]', str(file)).stdout
    assert "already exists on node1, node2" in plan
    tried = hosts.command.run(*check, timeout=180)
    assert re.search(r"all-reduce of 2 ranks over gloo: [\d.]+ ms", tried.stdout), tried.stdout + tried.stderr


def place_uv(hosts: HostsRun, host: int) -> None:
    place = hosts.made.home(host) / ".local" / "bin"
    place.mkdir(parents=True, exist_ok=True)
    (place / "uv").symlink_to(uv_program())
