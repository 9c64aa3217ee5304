"""Nodes of one run as its controller connects to them: this machine, and others over links."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.agent.link.names import rank_of
from torchdeck.agent.startup import session_of_run
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Elastic
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import processes_of_run
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.transport import LINGER, LocalTransport, Transport
from torchdeck.runs.links import UP
from torchdeck.runs.replay.history import RunHistory

if TYPE_CHECKING:
    from concurrent.futures import Future

    from torchdeck.launching.remote.bootstrap import ByteStream
    from torchdeck.launching.remote.code import CodeSending
    from torchdeck.launching.remote.link import LinkFile, NodeLink
    from torchdeck.launching.remote.transport import SshTransport
    from torchdeck.nodes.connector import Connector
    from torchdeck.runs.links import LinkState


CATCH_UP_LIMIT = 60.0
"""Seconds to fetch the remaining data of a node at the end of a run, while its link is up."""
AGAIN = 1.0
QUIET_LIMIT = 15.0
"""Seconds after the end within which the agents of a run exit."""
QUIET_TICK = 0.1

Streams = Mapping[str, "Future[ByteStream]"]
"""Node → a connection to it that is on its way."""


class NodesNotKnownError(Refusal):
    """A node of the run is not in the local node inventory; the message names it."""

    page = "machines#the-node-inventory"


class ConnectedNodes:
    """Transports of a run, with the transfers and links.json of those that are links.

    Attributes:
        transports: in the order of the plan; the leader's first.
    """

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        shipped: Path,
        logins: Mapping[str, Any],
        streams: Streams | None = None,
    ) -> None:
        """Nothing is connected before `start`.

        Args:
            layout: the run.
            plan: its plan.
            shipped: the folder with the part of Torchdeck that the run was started with.
            logins: of nodes, as `Credentials.to_json` gives them.
            streams: node → its connection, on its way.

        Raises:
            NodesNotKnownError: a node is not in the node inventory, or the inventory is damaged.
        """
        self._layout = layout
        self._has_code = layout.code_manifest.exists()
        self._sending: dict[str, CodeSending] = {}
        links = _links(layout, plan, shipped, logins, streams or {})
        self._links = links
        session = session_of_run(layout)
        self.transports: Sequence[Transport] = [
            _over(layout, links[node.name], session)
            if node.name in links
            else LocalTransport(layout, node, shipped)
            for node in plan.all_nodes
        ]
        self._file: LinkFile | None = None
        if links:
            from torchdeck.launching.remote.link import LinkFile

            self._file = LinkFile(layout, list(links.values()), self._with_code)

    def start(self) -> None:
        """Start connecting, and sending what the nodes need."""
        for link in self._links.values():
            link.start()
        if self._has_code and self._links:
            from torchdeck.launching.remote.code import CodeSending

            self._sending = {name: CodeSending(self._layout, link) for name, link in self._links.items()}

    def look(self, *, at_once: bool = False) -> list[str]:
        """Write links.json, if it is due or `at_once`; return the nodes' messages for the user."""
        if self._file is not None:
            self._file.look(at_once=at_once)
        return [f"{name}: {text}" for name, link in self._links.items() for text in link.take_messages()]

    def _with_code(self, state: LinkState) -> LinkState:
        sending = self._sending.get(state.node)
        return state if sending is None else sending.with_progress(state)

    def is_connected(self, node: str) -> bool:
        """Return whether a message to `node` would arrive now."""
        link = self._links.get(node)
        return link is None or link.state.state == UP

    def heard(self, node: str) -> float | None:
        """Return when `node` was last heard from, in unix seconds; None: never."""
        link = self._links.get(node)
        return time.time() if link is None else link.state.heard

    def has_ranks(self, node: str) -> bool:
        """Return whether ranks of the run are known to be alive on `node`."""
        link = self._links.get(node)
        if link is not None:
            return link.state.torchrun_alive is True
        return bool(processes_of_run(self._layout.root.name))

    def lives(self, node: str, history: RunHistory) -> bool | None:
        """Return whether any process of the run is alive on `node`; None while unknown."""
        link = self._links.get(node)
        if link is not None:
            told = link.state.state == UP and link.state.agent_alive is not None
            return _is_busy(link) if told else None
        known = (history.agents.get(node), history.holders.get(node))
        alive = any(identity is not None and identity.is_alive() for identity in known)
        return alive or bool(processes_of_run(self._layout.root.name))

    def has_code(self, node: str) -> bool:
        """Return whether an agent on `node` would find the run's code."""
        sending = self._sending.get(node)
        return sending is None or sending.done

    def code_refused(self, node: str) -> str:
        """Return why `node` will never have the code; empty otherwise."""
        sending = self._sending.get(node)
        return "" if sending is None else sending.why

    def close(self, check: Callable[[], None] = lambda: None, linger: float = LINGER) -> list[str]:
        """Fetch the remaining data from the nodes after the run, and disconnect; return the nodes that did
        not return.

        Args:
            check: called repeatedly; an exception from it ends the wait.
            linger: seconds to wait for unreachable nodes to return.
        """
        for sending in self._sending.values():
            sending.close()
        until = time.monotonic() + linger
        missing = [name for name, link in self._links.items() if not link.catch_up(CATCH_UP_LIMIT)]
        self._await_quiet(check)
        while missing and time.monotonic() < until:
            check()
            self.look()
            time.sleep(AGAIN)
            missing = [name for name in missing if not self._links[name].catch_up(CATCH_UP_LIMIT)]
        self.look(at_once=True)
        self.let_go()
        return missing

    def _await_quiet(self, check: Callable[[], None]) -> None:
        """Wait until no agent of the run is alive on a connected node, and its last output has arrived."""
        limit = time.monotonic() + QUIET_LIMIT
        while any(map(_is_busy, self._links.values())) and time.monotonic() < limit:
            check()
            self.look()
            time.sleep(QUIET_TICK)
        for link in self._links.values():
            link.catch_up(CATCH_UP_LIMIT)

    def let_go(self) -> None:
        """Close the links; processes on the nodes continue."""
        for link in self._links.values():
            link.close()


def _is_busy(link: NodeLink) -> bool:
    """Return whether the node reported a live process of the run."""
    state = link.state
    return bool(state.agent_alive or state.holder_alive or state.torchrun_alive)


def _over(layout: RunLayout, link: NodeLink, session: int) -> SshTransport:
    from torchdeck.launching.remote.transport import SshTransport

    return SshTransport(layout, link, session)


def _links(
    layout: RunLayout, plan: LaunchPlan, shipped: Path, logins: Mapping[str, Any], streams: Streams
) -> dict[str, NodeLink]:
    remote = [node for node in plan.all_nodes if node.name != LOCALHOST]
    if not remote:
        return {}
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.ssh.credentials import Credentials, NoAsker

    credentials = Credentials()
    with contextlib.suppress(ValueError):
        credentials = Credentials.from_json(logins)
    connector = Connector(layout.home.root, NoAsker(), credentials)
    try:
        return {node.name: _link(layout, plan, node.name, shipped, connector, streams) for node in remote}
    except Refusal as error:
        raise NodesNotKnownError(str(error)) from error


def _link(
    layout: RunLayout, plan: LaunchPlan, name: str, shipped: Path, connector: Connector, streams: Streams
) -> NodeLink:
    from torchdeck.launching.remote.dial import dial_of
    from torchdeck.launching.remote.link import LinkTarget, NodeLink

    entry = connector.entry(name)
    target = LinkTarget(layout, name, entry.home or "", shipped, own_files(plan, name))
    return NodeLink(target, dial_of(connector, name, entry), streams.get(name))


def own_files(plan: LaunchPlan, node: str) -> Callable[[str], bool]:
    """Return a predicate: whether a mirrored file, by its path in the run directory, is written on `node`.

    The plan of an attempt is the leader's, and a rank's files are its node's. If the gang may continue
    without some node or rank, any rank may be on any node in a later attempt.
    """
    leader = plan.nodes[0].name == node
    yields = Elastic.of_plan(plan).yields
    ranks = {placed.rank for placed in plan.ranks if yields or placed.node == node}

    def own(path: str) -> bool:
        rank = rank_of(path)
        if rank is not None:
            return rank in ranks
        parts = path.split("/")
        return leader or parts[0] != "attempts" or len(parts) > 3

    return own
