"""Steps before the start of an attempt, which may take a while."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from torchdeck.agent.attempt.attempt_plan import Given, PreparedAttempt, choose_port, prepare_attempt
from torchdeck.agent.attempt.resume_points import AttemptError, resume_points
from torchdeck.agent.gang.events import Offered, ResumePoint
from torchdeck.agent.gpus import gone_devices
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import fill


class Preparation:
    """Fills the slots of an attempt in a thread: hashing a large checkpoint takes its time.

    Attributes:
        done: the outcome is there: `prepared`, or `error` when that is None.
        damaged: (path, why) of checkpoints that were passed over.
        gone: devices that the driver lists no more.
    """

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        number: int,
        shipped: Path,
        devices: Sequence[str] = (),
        given: Given | None = None,
    ) -> None:
        """Begin; `devices` are looked for again, by UUID or index."""
        self.number = number
        self.gone: list[str] = []
        self._devices = tuple(devices)
        self.done = False
        self.prepared: PreparedAttempt | None = None
        self.error = ""
        self.damaged: list[tuple[str, str]] = []
        self._arguments = (layout, plan, number, shipped)
        self._given = given
        threading.Thread(target=self._run, name="preparing", daemon=True).start()

    def _run(self) -> None:
        layout, plan, number, shipped = self._arguments
        try:
            self.gone = gone_devices(self._devices)
            self.prepared = prepare_attempt(
                layout,
                plan,
                number,
                shipped,
                lambda path, why: self.damaged.append((path, why)),
                self._given,
            )
        except (AttemptError, OSError, ValueError) as error:
            self.error = str(error)
        finally:
            self.done = True


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
