"""Puts a run into the queue, or another one in place of an entry that waits, after it was checked."""

from __future__ import annotations

import getpass
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchdeck.config.loader import LoadedConfig, load_config_text
from torchdeck.queue.asked import ask_of, bindings, needs_machines
from torchdeck.queue.entry import AfterRun, Condition, DeviceOptions, Entry, QueuedFile
from torchdeck.queue.queue_file import change_queue, read_queue
from torchdeck.queue.scheduling.ask import Ask, Places
from torchdeck.queue.scheduling.scheduler import Waiting, schedule
from torchdeck.queue.state import NoSuchEntryError, Queue, QueueError, must_wait
from torchdeck.use_cases.queue.machines import MachineWatch, resolved
from torchdeck.use_cases.ui import Phase, Ui, connector_for

if TYPE_CHECKING:
    from torchdeck.contract.plan.launch_plan import LaunchPlan

LOOK_LIMIT = 15.0
"""Seconds to wait for nodes that do not answer."""
LONGEST_TEXT = 2**20
STOPPING = 120.0
"""Seconds added to a time limit, besides its grace periods, for the last checkpoint."""
EARLIER_RUNS = 5
"""Newest runs with its name whose length is the estimate for an entry."""


@dataclass(frozen=True)
class AddRequest:
    """A run to queue."""

    loaded: LoadedConfig
    file: QueuedFile
    devices: DeviceOptions
    priority: int | None = None
    """None: 0, or that of the entry in whose place it comes."""
    tags: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    """`RUN` or `RUN:succeeded`; None: none, or as before."""
    trust: bool = False
    """Trust the code of the run first."""
    check: bool = True
    """Plan it, and check it with its memory, as if all devices were free."""


@dataclass(frozen=True)
class Added:
    """Entry that was queued."""

    entry: Entry
    plan: LaunchPlan | None = None
    """The plan with which it would start if all devices were free; None if that was not checked."""
    warnings: tuple[str, ...] = ()


def add(request: AddRequest, home: Path, ui: Ui) -> Added:
    """Queue a run.

    Raises:
        ConfigError, PlanError, PreflightError: it could not run, even if all devices were free.
        QueueError: the queue cannot be written, or what it is to wait for does not exist.
    """
    made, plan, warnings = _checked(request, home, ui)

    def change(queue: Queue) -> Queue:
        return queue.with_new(lambda entry_id, position: replace(made, id=entry_id, position=position))

    return Added(change_queue(home, change).entries[-1], plan, warnings)


def replace_entry(entry_id: str, request: AddRequest, home: Path, ui: Ui) -> Added:
    """Queue a run in place of an entry that waits; it keeps its position. Raises as `add`."""
    before = must_wait(read_queue(home).find(entry_id))
    made, plan, warnings = _checked(request, home, ui)

    def changed(entry: Entry) -> Entry:
        return replace(
            must_wait(entry),
            name=made.name,
            file=made.file,
            ask=made.ask,
            devices=made.devices,
            limit=made.limit,
            expected=made.expected,
            priority=entry.priority if request.priority is None else request.priority,
            tags=entry.tags if request.tags is None else request.tags,
            after=entry.after if request.after is None else made.after,
            note="",
        )

    def change(queue: Queue) -> Queue:
        entry = changed(queue.find(before.id))
        queue.must_not_circle(entry)
        return queue.with_entry(entry)

    queue = change_queue(home, change)
    return Added(queue.find(before.id), plan, warnings)


def loaded_file(file: QueuedFile, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Return the config of a queued run file with further overrides. Raises ConfigError."""
    return load_config_text(file.text, file.path, [*file.overrides, *overrides], Path(file.folder))


def _checked(request: AddRequest, home: Path, ui: Ui) -> tuple[Entry, LaunchPlan | None, tuple[str, ...]]:
    """Return the entry without an id, and the plan with which it could run."""
    loaded = request.loaded
    if len(request.file.text) > LONGEST_TEXT:
        raise QueueError("the run file is too long for the queue")
    if request.trust:
        from torchdeck.use_cases.trust import trust_run

        trust_run(loaded, home)
    ask = ask_of(loaded.config, request.devices)
    after = tuple(_after(text, home) for text in request.after or ())
    plan, warnings = _possible(request, ask, home, ui) if request.check else (None, ())
    config, launch = loaded.config, loaded.config.launch
    hours = config.limits.max_hours
    entry = Entry(
        id="",
        name=config.name,
        file=request.file,
        ask=ask,
        added=time.time(),
        position=0,
        devices=request.devices,
        priority=request.priority or 0,
        user=getpass.getuser(),
        tags=request.tags or (),
        after=after,
        limit=None if hours is None else hours * 3600 + launch.stop_grace + launch.kill_grace + STOPPING,
        expected=earlier_length(config.name, home),
    )
    return entry, plan, warnings


def _after(text: str, home: Path) -> AfterRun:
    """Parse `RUN` or `RUN:succeeded`, RUN being an entry, or a run as `runs show` takes it."""
    from torchdeck.runs.registry import RunRegistry

    name, colon, word = text.rpartition(":")
    if not colon:
        name, word = text, Condition.ENDED.value
    if word not in [*Condition]:
        raise QueueError(f"{word} is no way to end", fix="RUN or RUN:succeeded", key="--after")
    try:
        run = read_queue(home).find(name).id
    except NoSuchEntryError:
        run = RunRegistry(home).find(name).root.name
    return AfterRun(run, Condition(word))


def _possible(request: AddRequest, ask: Ask, home: Path, ui: Ui) -> tuple[LaunchPlan | None, tuple[str, ...]]:
    """Return the plan with which it would run if all devices were free, and warnings; raise if none can."""
    from torchdeck.launching.checked_plan import checked_plan

    chooses = needs_machines(ask) or bool(request.devices.nodes)
    places = place_if_free(ask, home, ui) if chooses else None
    # devices may be in use now: the run waits for them
    overrides = ["launch.queue=true", *(bindings(ask, places) if places else ())]
    loaded = loaded_file(request.file, overrides)
    connector = connector_for(loaded.config, ui, home)
    with ui.waiting(Phase.MODEL) as progress:
        plan, checks = checked_plan(
            loaded.config, home, request.loaded.locate, progress, loaded.files, connector
        )
    held = "devices"  # who has them now does not matter
    warned = (str(check) for check in checks if check.status == "warning" and check.name != held)
    return plan, tuple(dict.fromkeys((*plan.warnings, *warned)))


def place_if_free(ask: Ask, home: Path, ui: Ui) -> Places:
    """Return where an entry would run if all devices were free.

    Raises:
        QueueError: no machine could run it, or those that could do not answer.
    """
    connector = ui.connector(home)
    inventory = connector.node_inventory()
    resolved_ask = resolved(ask, inventory)
    watch = MachineWatch(connector)
    try:
        with ui.waiting(Phase.LOGINS):
            watch.wait_until_known(resolved_ask.nodes, inventory, LOOK_LIMIT)
        look = watch.look(resolved_ask.nodes, inventory, read_queue(home).limits, ())
    finally:
        watch.close()
    found = schedule([Waiting("", resolved_ask)], look.machines, (), 0.0)
    if not found.starts:
        raise QueueError(found.waits[""].why, fix="other devices or nodes, or --unchecked")
    return found.starts[""]


def earlier_length(name: str, home: Path) -> float | None:
    """Return the median length of the newest runs with this name that succeeded, in seconds; None: none."""
    from torchdeck.runs.folders.origin import name_in
    from torchdeck.runs.folders.run_directory import slug
    from torchdeck.runs.registry import RunRegistry
    from torchdeck.use_cases.queue.known_runs import KnownRuns

    ids = [run_id for run_id in reversed(RunRegistry(home).ids()) if name_in(run_id) == slug(name)]
    runs = KnownRuns(home).look(islice(ids, EARLIER_RUNS)).values()
    lengths = [
        run.ended - run.started
        for run in runs
        if run is not None and run.state == "SUCCEEDED" and run.started and run.ended
    ]
    return median(lengths) if lengths else None
