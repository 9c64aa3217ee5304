"""From where each attempt went on, so that rows of superseded steps can be told from those that count."""

from __future__ import annotations

from collections.abc import Iterable

from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import JournalReader, reader_of_node
from torchdeck.contract.layout import RunLayout

RESTORED_NOTHING = -1
"""The step that an attempt which began afresh restored: no row of an earlier attempt counts."""
_LARGEST_STEP = 2**63


class AttemptStarts:
    """What the nodes' journals say about the starts of attempts."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._journals: dict[str, JournalReader] = {}
        self._restored: dict[int, int | None] = {}
        self._begins_afresh: bool | None = None

    def refresh(self, nodes: Iterable[str]) -> None:
        """Take in new journal lines of `nodes`.

        Raises:
            NewerFormatError: this machine's journal is from a newer Torchdeck.
        """
        for name in nodes:
            reader = self._journals.setdefault(name, reader_of_node(self._layout.node(name)))
            for event in reader.read_new():
                attempt, step = event.fields.get("attempt"), event.fields.get("resume_step")
                if event.name == "attempt_started" and isinstance(attempt, int):
                    restored = isinstance(step, int) and abs(step) < _LARGEST_STEP
                    self._restored[attempt] = step if restored else None

    def restored_step(self, attempt: int) -> int | None:
        """The step whose checkpoint `attempt` began with; None where only its own rows can tell.

        A recipe that restored nothing begins afresh (`RESTORED_NOTHING`). Other scripts may restore on their
        own.
        """
        step = self._restored.get(attempt)
        if step is None and attempt in self._restored and self._is_recipe():
            return RESTORED_NOTHING
        return step

    def _is_recipe(self) -> bool:
        if self._begins_afresh is None:
            plan = read_json(self._layout.plan)
            self._begins_afresh = isinstance(plan, dict) and plan.get("kind") == "recipe"
        return self._begins_afresh

    def known(self) -> set[int]:
        """Attempts that started."""
        return set(self._restored)
