"""A real agent on a node that is another folder, started, asked to stop and followed over its link."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.agent_run import AgentRun, make_plan, script
from support.links.linked import LinkedRun
from support.system.open_files import open_files
from support.waiting import wait_until
from torchdeck.agent.attempt.handover import Handover, handover_from
from torchdeck.agent.supervisor_process import PROCESS_NAME
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.journal import read_journal
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.agent_watchdog import AgentWatchdog
from torchdeck.launching.remote.link import NodeLink
from torchdeck.launching.remote.transport import SshTransport
from torchdeck.launching.requests import STOP_NOW, Request
from torchdeck.runs.replay.history import RunHistory

pytestmark = pytest.mark.processes

AGENT_NODE = "localhost"
SLEEPS = "import time; print('begun', flush=True); time.sleep(600)"
FAILS = "raise ValueError('words')"


class NodeRun(LinkedRun):
    """A run with a plan, whose node's name is that of the plan."""

    node = AGENT_NODE

    def plan(self, text: str, folder: Path) -> LaunchPlan:
        plan = make_plan(script(folder, text), folder)
        write_json(self.here.plan, plan.document())
        return plan

    def events(self, name: str) -> list[dict[str, object]]:
        """As they are seen on this side."""
        return [
            dict(event.fields)
            for event in read_journal(self.here.node(AGENT_NODE).journal)
            if event.name == name
        ]

    def cut(self) -> None:
        """The link's end on the node is killed, and another is there."""
        count = len(self.streams)
        self.kill_server()
        self.link.retry()
        wait_until(lambda: len(self.streams) > count, 30, "another connection")
        self.up()

    def agent_is_gone(self) -> bool:
        """It writes once more after it has said that the run is over."""
        agent = ProcessIdentity.from_json(read_json(self.there.node(AGENT_NODE).lock))
        return agent is None or not agent.is_alive()

    def files(self) -> Iterator[tuple[Path, bytes]]:
        """All there are on both sides, and what is in them; some are replaced meanwhile."""
        for home in (self.home, self.node_home):
            for path in (path for path in home.rglob("*") if path.is_file()):
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.read_bytes()


@pytest.fixture
def node_run(tmp_path: Path) -> Iterator[NodeRun]:
    """Whatever the agent started is ended with it."""
    run = NodeRun(tmp_path)
    watched = AgentRun.__new__(AgentRun)
    watched.layout, watched.node, watched.agents = run.there, run.there.node(AGENT_NODE), []
    try:
        yield run
    finally:
        run.close()
        watched.clean_up()


def transport(run: NodeRun) -> SshTransport:
    return SshTransport(run.here, run.up())


def test_an_agent_is_asked_for_once(node_run: NodeRun, tmp_path: Path) -> None:
    """The node says at once that one is starting, before the keeper would ask for another."""
    node_run.plan(SLEEPS, tmp_path)
    keeper = AgentWatchdog(transport(node_run))
    looks: list[bool] = []

    def begun() -> bool:
        looks.append(keeper.look(RunHistory()))
        return keeper.begun

    wait_until(begun, 30, "an agent to be seen", every=0.01)
    assert looks.count(True) == 1


def test_an_agent_outlives_its_link_and_is_followed(node_run: NodeRun, tmp_path: Path) -> None:
    """The link's end is killed while ranks run; the next one sees all and hands over the stop."""
    node_run.plan(SLEEPS, tmp_path)
    reached = transport(node_run)
    reached.start_agent(b"")
    wait_until(lambda: node_run.events("attempt_started"), 60, "the attempt, seen here")
    wait_until(reached.agent_is_starting, 20, "the agent to be said to live")
    node_run.cut()
    wait_until(lambda: node_run.link.state.torchrun_alive, 30, "torchrun to be said to live")
    printed = node_run.here.attempt(1).rank(0).stdout
    wait_until(lambda: printed.exists() and b"begun" in printed.read_bytes(), 60, "rank 0 to begin")
    request = Request("1700000000-stop_now-ab", STOP_NOW, "test")
    reached.deliver(request)
    reached.deliver(request)
    finished = wait_until(lambda: node_run.events("finished"), 60, "the end, seen here")
    assert finished[0]["state"] == "CANCELLED"
    wait_until(lambda: node_run.link.state.agent_alive is False, 20, "the agent to be gone")
    assert node_run.link.catch_up(20)
    assert node_run.differences() == []


def test_an_agent_that_is_stopped_is_replaced(node_run: NodeRun, tmp_path: Path) -> None:
    """Its shim starts another, which takes the stop; a process that is gone is skipped."""
    node_run.plan(SLEEPS, tmp_path)
    reached = transport(node_run)
    reached.start_agent(b"")
    wait_until(lambda: node_run.events("attempt_started"), 60, "the attempt, seen here")
    frozen = ProcessIdentity.from_json(read_json(node_run.there.node(AGENT_NODE).lock))
    assert frozen is not None
    assert frozen.send(signal.SIGSTOP)
    reached.deliver(Request("1700000000-stop_now-ab", STOP_NOW, "test"))
    reached.kill([frozen, frozen._replace(boot="another")])
    reached.kill([frozen])
    finished = wait_until(lambda: node_run.events("finished"), 60, "the end, seen here")
    assert finished[0]["state"] == "CANCELLED"


def test_a_failure_comes_over_with_its_traceback(node_run: NodeRun, tmp_path: Path) -> None:
    """Journal, error files and logs."""
    node_run.plan(FAILS, tmp_path)
    transport(node_run).start_agent(b"")
    finished = wait_until(lambda: node_run.events("finished"), 60, "the end, seen here")
    assert "ValueError: words" in str(finished[0]["why"])
    wait_until(node_run.agent_is_gone, 20, "the agent to be gone")
    assert node_run.link.catch_up(20)
    assert node_run.differences() == []


def test_a_living_agent_says_over_the_link_what_it_was_handed(node_run: NodeRun, tmp_path: Path) -> None:
    """Over a later link, too; nothing of it lies in a file of either side, and no agent is no answer."""
    node_run.plan(SLEEPS, tmp_path)
    reached = transport(node_run)
    with pytest.raises(OSError, match="did not answer within"):
        reached.ask_handover()
    handed = Handover("canary of a token", ("10.0.0.1", 4711), {"KEY": "canary of a secret"})
    reached.start_agent(handed.line())
    wait_until(lambda: node_run.events("attempt_started"), 60, "the attempt, seen here")
    node_run.cut()
    assert handover_from(reached.ask_handover()) == handed
    for path, content in node_run.files():
        assert b"canary" not in content, path


def test_an_agent_inherits_nothing_of_its_link(node_run: NodeRun, tmp_path: Path) -> None:
    """Session and name are its own, no pipe of the link is open, and its title names the run."""
    node_run.plan(SLEEPS, tmp_path)
    reached = transport(node_run)
    reached.start_agent(b"")
    wait_until(lambda: node_run.events("attempt_started"), 60, "the attempt, seen here")
    server = node_run.streams[-1].process.pid
    agent = json.loads(node_run.there.node(AGENT_NODE).lock.read_text())["pid"]
    assert os.getsid(agent) == agent != os.getsid(server)
    assert Path(f"/proc/{agent}/comm").read_text() == f"{PROCESS_NAME}\n"
    assert Path(f"/proc/{agent}/cwd").readlink() == Path("/")
    title = Path(f"/proc/{agent}/cmdline").read_bytes().decode()
    assert "torchdeck/agent/__main__.py" in title
    assert node_run.there.root.name in title
    pipes = {Path(f"/proc/{server}/fd/{place}").readlink() for place in (0, 1, 2)}
    assert not {pipe for pipe in pipes if pipe != Path(os.devnull)} & open_files(agent)
    assert Path(f"/proc/{agent}/fd/2").readlink() == node_run.there.node(AGENT_NODE).log


def test_an_agent_that_ends_at_once_says_so(node_run: NodeRun) -> None:
    """Its exit code and the end of its log, for the message."""
    write_json(node_run.here.plan, {"v": 99})
    reached = transport(node_run)
    reached.start_agent(b"")
    assert wait_until(reached.agent_exit, 30, "the agent's end") == 2
    assert "plan.json" in reached.agent_log()
    assert not reached.agent_is_starting()
    node_run.link.close()
    assert "plan.json" in reached.agent_log()


def test_another_plan_is_not_laid_over_the_first(node_run: NodeRun, tmp_path: Path) -> None:
    """The directory on the node is this run's."""
    node_run.plan(SLEEPS, tmp_path)
    node_run.there.root.mkdir(parents=True)
    node_run.there.plan.write_text("{}")
    with pytest.raises(OSError, match="another plan"):
        transport(node_run).start_agent(b"")


def test_secrets_stand_in_no_file_and_no_environment(node_run: NodeRun, tmp_path: Path) -> None:
    """What the agent is told goes through its standard input alone."""
    canary = "canary-83f1c0"
    node_run.plan(SLEEPS, tmp_path)
    reached = transport(node_run)
    reached.start_agent(json.dumps({"token": canary, "secrets": {"KEY": canary}}).encode() + b"\n")
    wait_until(lambda: node_run.events("attempt_started"), 60, "the attempt, seen here")
    server = Path(f"/proc/{node_run.streams[-1].process.pid}")
    agent = json.loads(node_run.there.node(AGENT_NODE).lock.read_text())["pid"]
    for process in (server, Path(f"/proc/{agent}")):
        assert canary.encode() not in (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
    for path, content in node_run.files():
        assert canary.encode() not in content, path


def test_a_node_that_cannot_be_reached_is_an_error(node_run: NodeRun) -> None:
    """As the transport's contract has it."""
    write_json(node_run.here.plan, {"v": 1})
    link: NodeLink = node_run.new_link()
    reached = SshTransport(node_run.here, link)
    with pytest.raises(OSError, match="is not reachable"):
        reached.start_agent(b"")
    with pytest.raises(OSError, match="is not reachable"):
        reached.deliver(Request("1-stop-ab", "stop", "test"))
    assert reached.agent_log() == ""
    assert reached.agent_exit() is None
