"""Two users of one machine: nothing of a run of one can be reached by the other."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from support.agents.controlled_run import controllers
from support.system.users import User, new_user, others_python
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import processes_of_run
from torchdeck.distributed.store.access import LOOPBACK
from torchdeck.distributed.store.private_listener import ADDRESS
from torchdeck.runs.follower import read_run

pytestmark = pytest.mark.root

ANN, BOB = 64_001, 64_002
LOOK = Path(__file__).parents[1] / "support/system/other_user.py"
RUN = """\
[run]
recipe = "byte-gpt"
[model]
layers = 1
width = 32
heads = 2
context = 16
[training]
steps = 1000000
microbatch = 2
[distributed]
nproc = 2
devices = "cpu"
[checkpoint]
every = 5
keep_last = 2
"""


@pytest.fixture
def users() -> Iterator[tuple[User, User]]:
    """Two, with homes that others may look into, and a folder for temporary files as /tmp is."""
    around = Path(tempfile.mkdtemp())
    around.chmod(0o755)
    (around / "tmp").mkdir()
    (around / "tmp").chmod(0o1777)
    try:
        yield new_user(ANN, around), new_user(BOB, around)
    finally:
        shutil.rmtree(around)


def torchdeck(user: User, home: Path, *words: str) -> None:
    """Run the command as `user`; it succeeds."""
    argv = [others_python(), "-P", "-m", "torchdeck.cli.main", *words]
    code, output, errors = user.run(argv, cwd=user.home, limit=120, TORCHDECK_HOME=str(home))
    assert code == 0, output + errors


@contextmanager
def live_run(user: User, home: Path) -> Iterator[RunLayout]:
    """A run of `user`, with its first checkpoint."""
    run_file = user.home / "run.toml"
    run_file.write_text(RUN)
    torchdeck(user, home, "--no-gui", str(run_file), "--detach")
    (folder,) = (home / "runs").iterdir()
    layout = RunLayout(folder)
    try:
        begun = "a checkpoint, or the run's end"
        wait_until(lambda: any(layout.root.rglob("manifest.json")) or read_run(layout).is_over, 90, begun)
        view = read_run(layout)
        assert not view.is_over, view.why
        yield layout
    finally:
        torchdeck(user, home, "runs", "stop", "--now", folder.name)
        over = "the run and all that belongs to it to end"
        wait_until(lambda: read_run(layout).is_over and not processes_of_run(folder.name), 60, over)


def seen_by(user: User, other: User) -> dict[str, Any]:
    """What `user` can reach of `other`'s, in their homes and where all users keep temporary files."""
    places = [str(other.home.parent), "/tmp", "/var/tmp", "/dev/shm"]
    code, output, errors = user.run([others_python(), str(LOOK), str(other.uid), *places], cwd=user.home)
    assert code == 0, errors
    found = json.loads(output)
    assert isinstance(found, dict)
    return found


def check_ports(ports: list[list[Any]]) -> None:
    """The store's two ends let no other user in. Only gloo's ports do, which ranks hold: it has no
    authentication (SECURITY.md, "What PyTorch leaves open").
    """
    ends = {(address, port): end for address, port, _, end in ports}
    (store,) = (port for address, port in ends if address == ADDRESS)
    assert (ends[ADDRESS, store], ends[LOOPBACK, store]) == ("unanswered", "closed")
    of_gloo = [listener for *where, listener, _ in ports if where[1] != store]
    assert of_gloo != []
    assert [listener for listener in of_gloo if not held_by_ranks(listener)] == []


def held_by_ranks(listener: int) -> bool:
    """Whether ranks, and no other processes, have the socket of this number open."""
    holders = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # just ended, or closed
            if str(descriptor.readlink()) == f"socket:[{listener}]":
                holders.add(descriptor.parents[1])
    variables = [(holder / "environ").read_bytes().split(b"\0") for holder in holders]
    return variables != [] and all(
        any(each.startswith(b"LOCAL_RANK=") for each in found) for found in variables
    )


def test_nothing_of_a_live_run_can_be_reached_by_another_user(users: tuple[User, User]) -> None:
    """Neither files, processes nor sockets, though all folders of the user are open to all, the home too."""
    ann, bob = users
    home = ann.home / "deck"
    home.mkdir()
    os.chown(home, ann.uid, ann.uid)
    home.chmod(0o755)
    with live_run(ann, home) as layout:
        found = seen_by(bob, ann)
        own = {f"{path} can be read" for path in (ann.home, ann.home / "run.toml", home)}
        assert set(found["files"]) - own == set()
        assert found["processes"] == []
        assert found["sockets"] == []
        assert found["memory"] == []
        assert own & set(found["files"])  # it does look
        assert found["ports"] != []
        assert all(ip_address(address).is_loopback for address, *_ in found["ports"])
        check_ports(found["ports"])
        (controller,) = controllers(layout)
        # its passwords are closed to the user's own programs, too
        assert Path(f"/proc/{controller.pid}/environ").stat().st_uid == 0
        mine = ann.run([others_python(), str(LOOK), str(ann.uid)], cwd=ann.home)
        shown = [line for line in json.loads(mine[1])["processes"] if "torchdeck controller" in line]
        assert [line for line in shown if not line.endswith("signalled")] == []
        assert shown != []
