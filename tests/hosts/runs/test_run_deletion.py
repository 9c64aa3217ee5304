"""What real hosts have of deleted runs: removed over their sshd, carried on later, found, and asked about."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.command import Command
from support.cli.typed_command import typed
from support.hosts.hosts import TestHosts
from support.hosts.hosts_run import HOME, write_inventory
from support.values import machines
from support.values.histories import agent_started, controller_journal, ended, finished, started
from support.values.made_runs import IDS, make_run
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.deletion import remove, set_aside
from torchdeck.runs.folders.node_parts import left_on_nodes

HostsOf = Callable[..., TestHosts]
RUN, OTHER, OWN = IDS
DONE = [agent_started(), started(), ended(), finished()]


class Deleting:
    """A run that is over, here and on two hosts, the second of which wants a password."""

    def __init__(self, made: TestHosts, home: Path) -> None:
        self.made = made
        self.home = home
        self.command = Command(home)
        self.password = made.allow_passwords(2)
        write_inventory(made, home, {2: {"key": None}})
        names = {"nodes": ["node1", "node2"]}
        plan = machines.plan(machines.config(distributed=names), *map(machines.node, names["nodes"]))
        self.run = make_run(home, controller_journal(), DONE, plan=plan.document())
        for host in (1, 2):
            self.lay(host, RUN)

    def lay(self, host: int, run_id: str) -> RunLayout:
        layout = self.on(host, run_id)
        layout.checkpoints.mkdir(parents=True)
        (layout.checkpoints / "part.bin").write_bytes(b"x" * 3000)
        return layout

    def on(self, host: int, run_id: str = RUN) -> RunLayout:
        return RunLayout(self.made.home(host) / HOME / "runs" / run_id)


@pytest.fixture
def deleting(hosts: HostsOf, torchdeck_home: Path) -> Deleting:
    return Deleting(hosts(2), torchdeck_home)


def test_a_deletion_asks_for_a_password_and_goes_on_where_a_node_was_away(deleting: Deleting) -> None:
    """Of a node that is not reached the command for later is said; it needs no run here any more."""
    pid = (deleting.made.folder / "host1/sshd.pid").read_text().strip()
    gone = f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.02; done"
    deleting.made.enter(1, ["sh", "-c", gone])
    asked = ("Password of", deleting.password)
    code, said = typed(deleting.command, ("runs", "delete", RUN, "--yes"), [asked])
    assert (code, f"deleted {RUN}" in said, "node node2: removed" in said) == (3, True, True), said
    assert not deleting.on(2).root.exists()
    later = f"torchdeck runs delete {RUN} --node node1"
    assert later in said, said
    assert left_on_nodes(deleting.home) == {"node1": (RUN,)}
    deleting.made.configure(1)  # which starts it again
    done = deleting.command.run(*later.split()[1:])
    assert (done.returncode, done.stdout) == (0, "node node1: removed\n"), done.stderr
    assert not deleting.on(1).root.exists()
    assert left_on_nodes(deleting.home) == {}


def test_without_a_terminal_a_password_is_not_waited_for(deleting: Deleting) -> None:
    """It is said that one is wanted, and the other node's part is gone."""
    done = deleting.command.run("runs", "delete", RUN)
    assert done.returncode == 3
    assert "node node1: removed" in done.stdout
    assert "node node2: not removed there: " in done.stderr
    assert "password" in done.stderr
    assert deleting.on(2).checkpoints.is_dir()


def test_here_alone_leaves_the_nodes_and_notes_nothing(deleting: Deleting) -> None:
    done = deleting.command.run("runs", "delete", RUN, "--here")
    assert (done.returncode, done.stdout) == (0, f"deleted {RUN}\n"), done.stderr
    assert deleting.on(1).checkpoints.is_dir()
    assert left_on_nodes(deleting.home) == {}


def test_clean_removes_what_a_deletion_that_was_cut_short_has_left(deleting: Deleting) -> None:
    """It says the size and asks; runs that are not known here, or that began on that host, stay."""
    aside = set_aside(deleting.run)
    remove(aside)  # and who did it was ended
    deleting.lay(1, OTHER)
    deleting.lay(1, OWN).journal.write_text("")
    asked = deleting.command.run("nodes", "clean", "node1")
    assert asked.returncode == 3
    assert f"node1: run {RUN}, 2.9 KiB" in asked.stderr
    assert "--yes removes them" in asked.stderr
    code, said = typed(deleting.command, ("nodes", "clean", "node1"), [("Remove them? (yes/no)", "yes")])
    assert (code, f"node1: removed run {RUN}, 2.9 KiB" in said) == (0, True), said
    assert f"torchdeck runs delete {OTHER} --node node1" in said
    assert OWN not in said
    found = [deleting.on(1, run_id).root.exists() for run_id in (RUN, OTHER, OWN)]
    assert found == [False, True, True]
    assert left_on_nodes(deleting.home) == {"node2": (RUN,)}
    told = deleting.command.json("nodes", "clean", "node1", "--yes")
    assert [(each["run_id"], each["was_deleted"]) for each in told["folders"]] == [(OTHER, False)]


def test_a_run_that_lives_on_one_of_two_hosts_that_share_a_home_stays(
    hosts: HostsOf, torchdeck_home: Path
) -> None:
    """The other host sees no process of it, and the lock that an agent of the first one holds."""
    made = hosts(2, shared_home=True)
    write_inventory(made, torchdeck_home, {})
    command = Command(torchdeck_home)
    node = RunLayout(made.home(1) / HOME / "runs" / OTHER).node("node1")
    node.root.mkdir(parents=True)
    away = ("runs", "delete", OTHER, "--node", "node2")
    holding = f'exec 9>"{node.lock}"; flock 9; echo held; read -r over'
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*made.enter_argv(1), "sh", "-c", holding], stdin=pipe, stdout=pipe, text=True
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "held\n"
        kept = command.run(*away)
        agent.communicate("\n", timeout=20)
    assert kept.returncode == 3
    assert "the run's agent is alive on another node with the same home" in kept.stderr
    assert node.root.is_dir()
    removed = command.run(*away)
    assert (removed.returncode, removed.stdout) == (0, "node node2: removed\n"), removed.stderr
    assert not node.root.exists()
