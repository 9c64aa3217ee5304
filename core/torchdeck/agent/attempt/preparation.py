"""Steps before the start of an attempt, which may take a while."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.agent.attempt.attempt_plan import (
    Given,
    PreparedAttempt,
    choose_port,
    code_folder,
    prepare_attempt,
    slot_values,
)
from torchdeck.agent.attempt.resume_points import AttemptError, resume_points
from torchdeck.agent.attempt.script_resume import script_points
from torchdeck.agent.environments.making import Making
from torchdeck.agent.gang.events import Offered, ResumePoint
from torchdeck.agent.gpus import gone_devices
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.processes import NODE_VARIABLE, RUN_ID_VARIABLE, without_run_variables

if TYPE_CHECKING:
    from torchdeck.agent.environments.make import Environment


class Preparation:
    """Fills the slots of an attempt in a thread: hashing a large checkpoint takes its time.

    Attributes:
        done: the outcome is there: `prepared`, or `error` when that is None.
        damaged: (path, why) of checkpoints that were passed over.
        gone: devices that the driver lists no more.
        making: progress of the ranks' environment.
        environment: it, if the plan has one made.
    """

    def __init__(
        self,
        layout: RunLayout,
        plan: LaunchPlan,
        number: int,
        shipped: Path,
        devices: Sequence[str] = (),
        given: Given | None = None,
        asked: Sequence[str] = (),
        name: str = "",
    ) -> None:
        """Begin; `devices` are looked for again, by UUID or index; `name` is this node's.

        `asked`: arguments with which a script continues, as `runs resume` was given them.
        """
        self.number = number
        self.making = Making()
        self.environment: Environment | None = None
        self._name = name
        self.gone: list[str] = []
        self._devices = tuple(devices)
        self.done = False
        self.prepared: PreparedAttempt | None = None
        self.error = ""
        self.damaged: list[tuple[str, str]] = []
        self._arguments = (layout, plan, number, shipped)
        self._given, self._asked = given, tuple(asked)
        threading.Thread(target=self._run, name="preparing", daemon=True).start()

    def _run(self) -> None:
        layout, plan, number, shipped = self._arguments
        try:
            self.gone = gone_devices(self._devices)
            values = {**slot_values(layout, number), "code": code_folder(layout, plan)}
            self.environment = environment_for(layout, plan, self._name, values, self.making)
            self.prepared = prepare_attempt(
                layout,
                plan,
                number,
                shipped,
                lambda path, why: self.damaged.append((path, why)),
                self._given,
                self._asked,
                "" if self.environment is None else self.environment.folder,
            )
        except Exception as error:  # noqa: BLE001 - the run ends by it, and must say why
            self.error = _reason(error)
        finally:
            self.done = True


class Vote:
    """One answer to Gather.

    Attributes:
        number: of the attempt.
        done: the answer is there.
        offered: it.
        damaged: (path, why) of checkpoints that were passed over.
        making: progress of the ranks' environment.
    """

    def __init__(self, layout: RunLayout, plan: LaunchPlan, number: int, node: str) -> None:
        """Begin; `plan` is of the attempt's size, its slots empty."""
        self.number = number
        self.making = Making()
        self.done = False
        self.offered = Offered(node, number, None, ())
        self.damaged: list[tuple[str, str]] = []
        self._layout, self._plan, self._node = layout, plan, node
        threading.Thread(target=self._run, name="offering", daemon=True).start()

    def _run(self) -> None:
        try:
            self._make_environment()  # before the vote: the ranks of all nodes then start together
            first = self._plan.nodes[0].name == self._node
            points = self._points(first=first)
            port = choose_port(self._plan) if first else None
            self.offered = self.offered._replace(port=port, points=points)
        except Exception as error:  # noqa: BLE001 - the run ends by it, and must say why
            self.offered = self.offered._replace(error=_reason(error))
        finally:
            self.done = True

    def _make_environment(self) -> None:
        layout, plan = self._layout, self._plan
        if plan.node(self._node).environment is None:
            return
        values = {**slot_values(layout, self.number), "code": code_folder(layout, plan)}
        made = environment_for(layout, plan, self._node, values, self.making)
        if made is not None:
            os.close(made.lock)  # the preparation takes it again

    def _points(self, *, first: bool) -> tuple[ResumePoint, ...]:
        if of_script := script_points(self._layout, self._plan, self._node, self.number):
            return of_script
        checkpoint, root = self._plan.checkpoint, self._layout.root
        values = slot_values(self._layout, self.number)
        return resume_points(
            checkpoint.resume,
            Path(fill(checkpoint.directory, values)),
            root.name,
            self.number,
            lambda path, why: self.damaged.append((path, why)),
            first=first,
        )


def _reason(error: Exception) -> str:
    """Return why an attempt cannot be prepared; never empty. A defect's traceback is in the agent's log."""
    if isinstance(error, (AttemptError, OSError, ValueError)) and str(error):
        return str(error)
    traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()
    return f"an error of Torchdeck itself: {type(error).__name__}: {error}"


def environment_for(
    layout: RunLayout, plan: LaunchPlan, name: str, values: Mapping[str, str], making: Making
) -> Environment | None:
    """Return the environment of node `name`, which may take minutes to make; None if the plan uses an
    existing Python.

    Args:
        layout: the run.
        plan: its slots empty.
        name: of this node.
        values: values of the slots in the node's working directory.
        making: progress, for other threads.

    Raises:
        AttemptError: it cannot be made, or lacks what torchrun needs.
        OSError: the disk does not allow it.
    """
    node = plan.node(name)
    if node.environment is None:
        return None
    # most runs need none of it
    from torchdeck.agent.environments.environment_files import (
        EnvironmentSourceError,
        find_source,
        platform_name,
    )
    from torchdeck.agent.environments.made import read_made, remove_unused
    from torchdeck.agent.environments.make import EnvironmentNotMadeError, use_environment

    home = layout.home
    try:
        source = find_source(_project(layout, plan, Path(fill(node.working_dir, values))))
        key = source.key(".".join(map(str, sys.version_info[:3])), platform_name())
        used = use_environment(home, source, key, sys.executable, _variables(layout, node), making)
    except (EnvironmentNotMadeError, EnvironmentSourceError) as error:
        raise AttemptError(str(error)) from error
    made = read_made(home, key)
    if node.torchrun and (made is None or made.torch is None):
        os.close(used.lock)
        raise AttemptError(
            f"there is no torch in the environment made from {source.name}: add it there (`uv add torch`)"
        )
    remove_unused(home)
    return used


def _project(layout: RunLayout, plan: LaunchPlan, start: Path) -> Path:
    """Return the folder of the project: the run's own copy, as the files of the user's may have changed."""
    folder = plan.code.folder
    if folder and start.is_relative_to(folder):
        copied = layout.code / start.relative_to(folder)
        return copied if copied.is_dir() else start
    return start


def _variables(layout: RunLayout, node: NodePlan) -> dict[str, str]:
    """Return the variables of uv: with the run's id, by which its processes are found and ended."""
    own = {name: fill(value, {}) for name, value in node.env.items() if name.startswith("UV_")}
    label = {NODE_VARIABLE: node.name} if NODE_VARIABLE in node.env else {}
    return {**without_run_variables(os.environ), **own, RUN_ID_VARIABLE: layout.root.name, **label}
