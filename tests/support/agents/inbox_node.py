"""A node whose agent is not there but for its inbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.requests import Request, page_request
from torchdeck.launching.transport import Supervision


class InboxNode:
    """A node with an inbox, and an agent there that lives or not."""

    unreached = ""

    def __init__(self, node: str, inbox: Path) -> None:
        self.node, self.inbox = node, inbox
        inbox.mkdir(parents=True)
        self.killed: list[list[ProcessIdentity]] = []
        self.seen: Supervision | None = Supervision(agent=True, holder=False)

    def supervision(self, *_known: ProcessIdentity | None) -> Supervision | None:
        return self.seen

    def deliver(self, request: Request) -> None:
        if self.seen is None:
            raise OSError("it is not reached")
        page_request(self.inbox, request)

    def start_agent(self, handover: bytes) -> None:
        raise NotImplementedError

    def agent_exit(self) -> int | None:
        return None

    def agent_is_starting(self) -> bool:
        return False

    def agent_log(self) -> str:
        return ""

    def kill(self, processes: Sequence[ProcessIdentity]) -> None:
        if self.seen is None:
            raise OSError("it is not reached")
        self.killed.append(list(processes))

    def ask_handover(self) -> bytes:
        raise NotImplementedError
