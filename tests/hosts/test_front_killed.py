"""A front end that is killed while it starts a run across hosts leaves a run that continues, or nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.command import variable
from support.hosts.hosts_run import HostsRun
from support.waiting import wait_until
from torchdeck.launching.control.pre_connect import MODULE
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
NODES = ("--set", 'distributed.nodes=["node1","node2"]', "--set", 'limits.min_free_disk="1MiB"')
MOMENTS: dict[str, Callable[[Path], bool]] = {
    "its controller connects": lambda home: bool(_connecting(home)),
    "it makes the run's directory": lambda home: any((home / "runs").glob(".*")) or _is_made(home),
    "the run's directory is there": lambda home: _is_made(home),
}


def _is_made(home: Path) -> bool:
    return any((home / "runs").glob("[!.]*"))


def _connecting(home: Path) -> list[int]:
    """Controllers of `home` that connected before their run was there, whether they have it now or not."""
    return [
        pid
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        if MODULE in _words(pid) and variable(pid, "TORCHDECK_HOME") == str(home)
    ]


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=[] if "is there" in moment else pytest.mark.soak) for moment in MOMENTS],
)
def test_killed_when(moment: str, across: AcrossOf, tmp_path: Path) -> None:
    """A run that has got its directory comes to its end with no one there; before that nothing is left."""
    hosts = across(2)
    home = hosts.command.home
    script = tmp_path / "hello.py"
    script.write_text("print('hello')\n")
    with hosts.command.start("--no-gui", "--script", script, "--nproc", "1", *NODES) as front:
        wait_until(lambda: MOMENTS[moment](home) or front.poll() is not None, 60, moment, every=0.001)
        front.kill()
        front.wait(10)
    if "is there" in moment:
        assert _is_made(home)
    if _is_made(home):
        wait_until(lambda: read_run(hosts.run).end_written, 120, "the run's end")
        assert read_run(hosts.run).state == "SUCCEEDED"
        hosts.wait_controller_gone(60)
    wait_until(lambda: not _connecting(home), 30, "controllers without a run to end")
    hosts.wait_empty(30)
