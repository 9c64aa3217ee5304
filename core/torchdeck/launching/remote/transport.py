"""A node over SSH, as seen by the controller."""

from __future__ import annotations

import json
from collections.abc import Sequence

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.remote.link import NodeLink
from torchdeck.launching.remote.link_session import RemoteRequestError
from torchdeck.launching.requests import Request
from torchdeck.launching.transport import LOG_TAIL, Supervision
from torchdeck.runs.links import UP

CALL_LIMIT = 10.0
"""Timeout in seconds for an answer, and the longest that the controller waits."""
START_LIMIT = 30.0
"""The same for a start, before which the plan is sent."""


class SshTransport:
    """One node over its link."""

    def __init__(
        self,
        layout: RunLayout,
        link: NodeLink,
        session: int = 0,
    ) -> None:
        """Create a transport over a link that was started.

        Args:
            layout: the run, on this side.
            link: link to the node.
            session: number of times the run had finished when it was resumed.
        """
        self.node = link.node
        self.link = link
        self._layout = layout
        self._session = session

    @property
    def unreached(self) -> str:
        """Problem with the link."""
        state = self.link.state
        return "" if state.state == UP else state.why or state.state

    def supervision(
        self,
        agent: ProcessIdentity | None,  # noqa: ARG002 - the node knows better
        holder: ProcessIdentity | None,  # noqa: ARG002
    ) -> Supervision | None:
        """Return the node's last report; None while the link is not up, or before the first report."""
        state = self.link.state
        if state.state != UP or state.agent_alive is None or state.holder_alive is None:
            return None
        return Supervision(state.agent_alive, state.holder_alive)

    def start_agent(self, handover: bytes) -> None:
        """Send the plan and start an agent. Raises OSError if the node cannot be reached or cannot do it."""
        try:
            self.link.call(LinkRequest.PLAN, self._layout.plan.read_bytes(), limit=START_LIMIT)
            self.link.call(LinkRequest.START_AGENT, handover, limit=START_LIMIT, life=self._session)
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def agent_exit(self) -> int | None:
        """Return the exit code of the agent started over this connection; None after another agent: unknown
        then.
        """
        return self.link.agent_exit

    def agent_is_starting(self) -> bool:
        """Return the node's last report, which is at most a second old while the link is up."""
        return self.link.agent_is_starting

    def agent_log(self) -> str:
        """Return the agent log from the node, or its mirrored part."""
        try:
            content = self.link.call(LinkRequest.AGENT_LOG, limit=CALL_LIMIT).body
        except (OSError, RemoteRequestError):
            content = self._mirrored_log()
        return content.decode("utf-8", "replace").strip()

    def deliver(self, request: Request) -> None:
        """Put it into the agent's inbox. Raises OSError if the node cannot be reached, or cannot do it."""
        body = json.dumps(request.to_json()).encode("utf-8")
        try:
            self.link.call(LinkRequest.DELIVER, body, limit=CALL_LIMIT, name=request.file_name)
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def kill(self, processes: Sequence[ProcessIdentity]) -> None:
        """Have them ended on the node. Raises OSError if it cannot be reached, or cannot do it."""
        named = [process.to_json() for process in processes]
        try:
            self.link.call(LinkRequest.KILL, limit=CALL_LIMIT, processes=named)
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def ask_handover(self) -> bytes:
        """Request it over the link, which SSH has authenticated as the agent's own user. Raises OSError if it
        is not given.
        """
        try:
            return self.link.call(LinkRequest.HANDOVER, limit=CALL_LIMIT).body
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def _mirrored_log(self) -> bytes:
        try:
            return self._layout.node(self.node).log.read_bytes()[-LOG_TAIL:]
        except OSError:
            return b""
