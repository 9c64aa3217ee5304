"""Requests of the controller to a node over a link. Each answer is a few fields and bytes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from torchdeck.agent.link.agent_start import AgentStart
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.frames import Frame
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import LinkRequest

Answer = tuple[Mapping[str, Any], bytes]
_REQUEST_NAME = re.compile(r"[0-9A-Za-z_-]{1,120}\.json")


class RequestError(ValueError):
    """The request cannot be fulfilled; the message says why."""


class Requests:
    """Answers one kind of question each.

    Attributes:
        handlers: name of what is asked → who answers; others may add theirs.
    """

    def __init__(self, layout: RunLayout, node: str, agent: AgentStart, *, shared: bool) -> None:
        self._layout = layout
        self._node = node
        self._agent = agent
        self._shared = shared
        self.handlers: dict[LinkRequest, Callable[[Frame], Answer]] = {
            LinkRequest.PLAN: self._plan,
            LinkRequest.START_AGENT: self._start_agent,
            LinkRequest.AGENT_LOG: lambda _frame: ({}, self._agent.log()),
            LinkRequest.DELIVER: self._deliver,
        }

    def answer(self, frame: Frame) -> Answer:
        """Do what is asked.

        Raises:
            RequestError: it is unknown or cannot be done.
            OSError: the disk, or the system, does not let it be done.
        """
        what = frame.text("do")
        try:
            handler = self.handlers[LinkRequest(what)]
        except (KeyError, ValueError):
            raise RequestError(f"this node's Torchdeck does not know the request {what!r}") from None
        return handler(frame)

    def _plan(self, frame: Frame) -> Answer:
        """Lay the run's plan into its directory, which is made; the same plan again changes nothing."""
        if self._shared:
            return {}, b""
        root = self._layout.root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._layout.node(self._node).inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            there = self._layout.plan.read_bytes()
        except FileNotFoundError:
            write_bytes(self._layout.plan, frame.body, private=True)
            return {}, b""
        if there != frame.body:
            raise RequestError(f"{self._layout.plan} is there already, and is another plan")
        return {}, b""

    def _start_agent(self, frame: Frame) -> Answer:
        if not self._layout.plan.is_file():
            raise RequestError(f"there is no {self._layout.plan}: the plan comes before the agent")
        if self._agent.exit_code() is None and self._agent.starting():
            return {"pid": 0}, b""  # asked twice
        return {"pid": self._agent.start(frame.body, frame.number("life"))}, b""

    def _deliver(self, frame: Frame) -> Answer:
        """Deliver a request to the agent's inbox; an empty one is named."""
        name = frame.text("name")
        if not _REQUEST_NAME.fullmatch(name):
            raise RequestError(f"{name!r} is no name of a request")
        inbox = self._layout.node(self._node).inbox
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            write_bytes(inbox / name, frame.body, private=True)
        except OSError:
            (inbox / name).touch(mode=0o600)  # the disk is full: the name says it all
        return {}, b""


def pong(frame: Frame) -> dict[str, Any]:
    """This node's clock, for who asked at the time `t`."""
    return {"t": frame.time("t"), "node_time": time.time()}
