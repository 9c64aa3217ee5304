"""A node over SSH, as the controller sees it."""

from __future__ import annotations

import json

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.remote.link import NodeLink
from torchdeck.launching.remote.session import RemoteRequestError
from torchdeck.launching.requests import Request
from torchdeck.launching.transport import LOG_TAIL, Supervision
from torchdeck.runs.links import UP

CALL_LIMIT = 10.0
"""Seconds for an answer; the controller waits that long at most."""
START_LIMIT = 30.0
"""The same for a start, before which the plan goes over."""


class SshTransport:
    """One node over its link."""

    def __init__(
        self,
        layout: RunLayout,
        link: NodeLink,
        life: int = 0,
    ) -> None:
        """A transport over a link that was started.

        Args:
            layout: the run, on this side.
            link: the node's.
            life: how often the run had finished when it was resumed.
        """
        self.node = link.node
        self.link = link
        self._layout = layout
        self._life = life

    @property
    def unreached(self) -> str:
        """What is wrong with the link."""
        state = self.link.state
        return "" if state.state == UP else state.why or state.state

    def supervision(
        self,
        agent: ProcessIdentity | None,  # noqa: ARG002 - the node knows better
        holder: ProcessIdentity | None,  # noqa: ARG002
    ) -> Supervision | None:
        """As the node said last; None while the link is not up, or before it has said anything."""
        state = self.link.state
        if state.state != UP or state.agent_alive is None or state.holder_alive is None:
            return None
        return Supervision(state.agent_alive, state.holder_alive)

    def start_agent(self, handover: bytes) -> None:
        """Lay the plan down and start an agent. Raises OSError when the node cannot be reached or do it."""
        try:
            self.link.call(LinkRequest.PLAN, self._layout.plan.read_bytes(), limit=START_LIMIT)
            self.link.call(LinkRequest.START_AGENT, handover, limit=START_LIMIT, life=self._life)
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def agent_exit(self) -> int | None:
        """Of the agent that was started over this connection; None after another one: nobody knows then."""
        return self.link.agent_exit

    def agent_is_starting(self) -> bool:
        """As the node said last, which is a second ago at most while the link is up."""
        return self.link.agent_is_starting

    def agent_log(self) -> str:
        """From the node, or what was mirrored of it."""
        try:
            content = self.link.call(LinkRequest.AGENT_LOG, limit=CALL_LIMIT).body
        except (OSError, RemoteRequestError):
            content = self._mirrored_log()
        return content.decode("utf-8", "replace").strip()

    def deliver(self, request: Request) -> None:
        """Lay it into the agent's inbox. Raises OSError when the node cannot be reached, or cannot do it."""
        body = json.dumps(request.to_json()).encode("utf-8")
        try:
            self.link.call(LinkRequest.DELIVER, body, limit=CALL_LIMIT, name=request.file_name)
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def ask_handover(self) -> bytes:
        """Over the link, which SSH has let in as the agent's own user. Raises OSError: it is not said."""
        try:
            return self.link.call(LinkRequest.HANDOVER, limit=CALL_LIMIT).body
        except RemoteRequestError as error:
            raise OSError(str(error)) from error

    def _mirrored_log(self) -> bytes:
        try:
            return self._layout.node(self.node).log.read_bytes()[-LOG_TAIL:]
        except OSError:
            return b""
