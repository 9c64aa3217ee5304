"""The growing journals of one run, read for a controller."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.contract.journal import Event, JournalReader, reader_of_node
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.replay import typed
from torchdeck.runs.replay.history import RunHistory


class RunFiles:
    """The run's journals.

    Attributes:
        history: their contents.
        forwarded: ids of requests that a controller forwarded.
    """

    def __init__(self, layout: RunLayout, nodes: Sequence[str]) -> None:
        """Open the journals of `nodes`: all nodes of the run, the leader's first."""
        self.history = RunHistory()
        self.forwarded: set[str] = set()
        self._listening: tuple[str, int] | None = None
        self._lead = nodes[0]
        self._left: set[str] = set()
        self._may_return: set[str] = set()
        self._journal = JournalReader(layout.journal)
        self._nodes = {node: reader_of_node(layout.node(node)) for node in nodes}

    def read(self) -> RunHistory:
        """Return the current history. Raises NewerFormatError and OSError of the run's own journal."""
        for event in self._journal.read_new():
            self.history.controller_event(event)
            if event.name == "request":
                self.forwarded.add(str(event.fields.get("id")))
        for node, reader in self._nodes.items():
            for event in reader.read_new():
                before = self.history.agent_session(node)
                self.history.node_event(node, event)
                if node == self._lead:
                    self._of_leader(event, another_session=self.history.agent_session(node) != before)
                self._of_agent(node, event)
        return self.history

    @property
    def listening(self) -> tuple[str, int] | None:
        """Return the address of the agents' leader in this session of the run; None: not listening, or not
        yet.
        """
        return self._listening if self.history.has_begun(self._lead) else None

    def has_left(self, node: str, session: int) -> bool:
        """Return whether the agent of `node` reported that it has no more to do in this session of the
        run.
        """
        return node in self._left and self.history.agent_session(node) == session

    def gave_up_leader(self, node: str) -> bool:
        """Return whether the agent of `node` has left because its leader no longer answered."""
        return node in self._may_return

    def _of_agent(self, node: str, event: Event) -> None:
        if event.name == "agent_started":
            self._left.discard(node)
            self._may_return.discard(node)
        elif event.name == "node_finished":
            (self._may_return if event.fields.get("may_return") is True else self._left).add(node)

    def _of_leader(self, event: Event, *, another_session: bool) -> None:
        if event.name == "finished" or another_session:
            self._listening = None
        elif event.name == "listening":
            port = typed.whole(event.fields, "port")
            self._listening = None if port is None else (typed.text(event.fields, "address"), port)
