"""Vote of one node of several on the start of an attempt, prepared in a thread: hashing takes time."""

from __future__ import annotations

import threading
from pathlib import Path

from torchdeck.agent.attempt.attempt_plan import choose_port
from torchdeck.agent.attempt.resume_points import AttemptError, resume_points
from torchdeck.agent.gang.events import Offered, ResumePoint
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import fill


class Vote:
    """One answer to Gather.

    Attributes:
        number: of the attempt.
        done: the answer is there.
        offered: it.
        damaged: (path, why) of checkpoints that were passed over.
    """

    def __init__(self, layout: RunLayout, plan: LaunchPlan, number: int, node: str) -> None:
        """Begin; `plan` is of the attempt's size, its slots empty."""
        self.number = number
        self.done = False
        self.offered = Offered(node, number, None, ())
        self.damaged: list[tuple[str, str]] = []
        self._layout, self._plan, self._node = layout, plan, node
        threading.Thread(target=self._run, name="offering", daemon=True).start()

    def _run(self) -> None:
        try:
            first = self._plan.nodes[0].name == self._node
            points = self._points(first=first)
            port = choose_port(self._plan) if first else None
            self.offered = self.offered._replace(port=port, points=points)
        except (AttemptError, OSError, ValueError) as error:
            self.offered = self.offered._replace(error=str(error))
        finally:
            self.done = True

    def _points(self, *, first: bool) -> tuple[ResumePoint, ...]:
        checkpoint, root = self._plan.checkpoint, self._layout.root
        values = {"run_id": root.name, "run_dir": str(root), "attempt": str(self.number)}
        return resume_points(
            checkpoint.resume,
            Path(fill(checkpoint.directory, values)),
            root.name,
            self.number,
            lambda path, why: self.damaged.append((path, why)),
            first=first,
        )
