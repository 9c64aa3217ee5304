"""Launches on nodes that are no good: refused before anything starts, each node named with its fault.

"Another torch" is a stub of its version file, and "another clock" libfaketime's.
"""

import json
import re
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.cli.command import Command
from support.hosts.hosts import TestHosts
from support.hosts.hosts_run import write_inventory
from support.training.training import Training

pytestmark = pytest.mark.hosts

LIMIT = 120.0
"""Seconds on a busy machine; torchrun itself would wait a quarter of an hour. bench_refusals measures it."""
BARE, OTHER, CLOCK, BLOCKED, FULL, CHANGED, COUNT = 2, 3, 4, 5, 6, 7, 7
WORDS = {
    BARE: ("there is no torch in", "pip install torch` there"),
    OTHER: ("torch is 2.99.0, and ", "install torch"),
    CLOCK: ("its clock is 900.", "NTP"),
    BLOCKED: (" cannot connect to ", "firewall"),
    FULL: ("too little for limits.min_free_disk of 64.0 MiB", "make room"),
}
"""Host → what is said of it: what is wrong, and what to do."""


class Bad(NamedTuple):
    """Hosts, the first of which is in good order."""

    made: TestHosts
    command: Command
    folder: Path

    def launch(self, *hosts: int) -> tuple[int, list[str]]:
        """The exit code of a launch on `hosts` and what it said, line by line."""
        names = ",".join(f'"node{host}"' for host in hosts)
        nodes = ("--set", f"distributed.nodes=[{names}]")
        done = self.command.run("--no-gui", *nodes, self.folder / "script.toml", timeout=LIMIT)
        assert self.command.runs() == []
        return done.returncode, done.stderr.splitlines()


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bad]:
    """One set of hosts for all launches, as none of them gets as far as changing anything there."""
    pytest.importorskip("torch", reason="the good host has it")
    folder = tmp_path_factory.mktemp("refused")
    with pytest.MonkeyPatch.context() as patch, TestHosts(COUNT) as made:
        (folder / "person").mkdir(mode=0o700)
        patch.setenv("HOME", str(folder / "person"))  # whose ~/.ssh is not there
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        home = folder / "home"
        made.trust(home)
        pythons = {BARE: python(folder / "bare"), OTHER: python(folder / "other", torch="2.99.0")}
        write_inventory(made, home, {host: {"python": path} for host, path in pythons.items()})
        made.shift_clock(CLOCK, 900.5)  # half a second on a busy machine either way
        made.block_port(BLOCKED, "1024-65535", sender=made.address(1))
        made.enter(FULL, ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(made.home(FULL))])
        made.change_host_key(CHANGED)
        (folder / "train.py").write_text("print(1)\n")
        (folder / "script.toml").write_text(
            '[run]\nscript = "train.py"\n[limits]\nmin_free_disk = "64MiB"\n'
            '[distributed]\nnproc = 1\ndevices = "cpu"\nbackend = "gloo"\n'
        )
        yield Bad(made, Command(home), folder)


def python(folder: Path, torch: str = "") -> str:
    """A Python of its own, without torch or with a stub of its version file."""
    venv.create(folder, symlinks=True)
    if torch:
        (packages,) = folder.glob("lib/python*/site-packages")
        stub = packages / f"torch-{torch}.dist-info"
        stub.mkdir()
        (stub / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
    return str(folder / "bin" / "python")


def said_of(host: int, lines: list[str]) -> str:
    """What was said of a host, which is named once in each line."""
    begin = f"torchdeck: node node{host}: "
    found = [line for line in lines if line.startswith(begin)]
    assert found, lines
    assert not any(f"node{host}" in line.removeprefix(begin).partition("`")[0] for line in found), found
    return "\n".join(found)


def test_all_that_is_wrong_is_said_at_once(bad: Bad) -> None:
    """Five nodes, each with something else, in one refusal."""
    code, lines = bad.launch(1, BARE, OTHER, CLOCK, BLOCKED, FULL)
    assert code == 3, lines
    for host in (BARE, OTHER, CLOCK, BLOCKED, FULL):
        said = said_of(host, lines)
        for words in WORDS[host]:
            assert words in said, (host, words, lines)


def test_a_changed_host_key_is_refused(bad: Bad) -> None:
    """Before anything is said to that host; once, with the way out for a host that was set up again.

    What is wrong with another node is said in the same refusal.
    """
    code, lines = bad.launch(1, CHANGED, BARE)
    assert code == 3, lines
    at, line = next((at, line) for at, line in enumerate(lines) if "node node7" in line)
    assert f"the host key of {bad.made.address(CHANGED)} is another one than before: now ssh-" in line
    assert re.search(rf"line \d+ of {bad.command.home}/known_hosts holds the old one", line), lines
    assert f"`ssh-keygen -R {bad.made.address(CHANGED)} -f " in line
    assert "`torchdeck nodes trust node7`" in lines[at + 1], lines
    begin = next(at for at, line in enumerate(lines) if line.startswith("node node2: "))
    assert all(words in " ".join(lines[begin : begin + 2]) for words in WORDS[BARE]), lines


@pytest.mark.soak
@pytest.mark.parametrize("host", [BARE, OTHER, CLOCK, BLOCKED, FULL])
def test_each_of_them_is_enough(bad: Bad, host: int) -> None:
    """No other node is needed for a refusal, and none is blamed."""
    code, lines = bad.launch(1, host)
    assert code == 3, lines
    assert all(words in said_of(host, lines) for words in WORDS[host]), lines


def test_a_node_that_may_be_left_out_needs_shared_checkpoints(bad: Bad) -> None:
    """Each host has a home of its own; a folder that all see is named by the second look, and is fine."""
    run_file = Training(bad.folder / "work", nproc=1).write(0.0)
    ranged = ("--set", 'distributed.nodes="1:2"', run_file)
    refused = bad.command.run("--no-gui", "--trust", *ranged)
    assert refused.returncode == 3, refused.stderr
    said = said_of(2, refused.stderr.splitlines())
    assert "its part of each checkpoint is on its own disk" in said
    assert "checkpoint.directory" in said
    shared = f"checkpoint.directory='{bad.folder / 'shared'}'"
    looked = bad.command.run("check", "--quick", "--json", "--set", shared, *ranged)
    checks = [check for check in json.loads(looked.stdout)["checks"] if check["name"] == "checkpoints"]
    assert [(check["node"], check["status"]) for check in checks] == [("node2", "ok")]
    assert list(bad.folder.rglob("*.mark")) == []


@pytest.mark.soak
def test_a_node_that_is_cut_off_is_refused(bad: Bad) -> None:
    """Nothing answers there, neither yes nor no; for the others it is there again."""
    bad.made.cut(CHANGED)
    try:
        code, lines = bad.launch(1, CHANGED)
    finally:
        bad.made.heal(CHANGED)
    assert code == 3, lines
    (line,) = (line for line in lines if "node node7" in line)
    assert "did not answer" in line, lines
