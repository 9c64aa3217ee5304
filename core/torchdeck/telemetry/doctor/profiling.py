"""Runs torch's profiler in a rank for some seconds, from a thread of its own, when the agent asks for it.

torch's profiler exists once per process: a second one that starts meanwhile crashed the process (torch 2.13).
A program that has a profiler is therefore not profiled, and one that starts its own, or forks, ends this one.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import importlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import write_json
from torchdeck.contract.doctor.rank_profile import ProfileOrder, parse_order
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.rank_layout import ProfileLayout, RankLayout

TICK = 0.05
MOST_MEMORY = 64 << 20
"""Bytes that the process may grow by while it records: an event takes several times as much at the end."""
OURS = "_torchdeck"
"""Attribute of profilers that are no one else's."""
END_LIMIT = 30.0
"""Seconds that a program waits for the end of this profiler before it starts its own, or forks."""


class RankProfiler:
    """Takes orders from the agent; one profile at a time."""

    def __init__(self, layout: RankLayout) -> None:
        self._layout = layout
        self._attempt = AttemptLayout.of_rank(layout)
        self._taken = ""
        self._session: _Session | None = None
        os.register_at_fork(before=self.end)  # a child would record for ever

    def look(self) -> None:
        """Begin what the agent has ordered since the last look."""
        try:
            text = os.fsdecode(self._layout.profile.read_bytes())
        except OSError:
            return
        if text == self._taken or (self._session is not None and self._session.is_alive()):
            return
        self._taken = text
        order = parse_order(text)
        if order is not None and order.folder == self._attempt.profile(order.folder.name).root:
            self._session = _Session(order, int(self._layout.root.name))
            self._session.start()

    def end(self) -> None:
        """End a profile that is being recorded; returns once torch's profiler is free."""
        if self._session is not None:
            self._session.end("the program forked, or ended")


class _Session(threading.Thread):
    """One profile: records, then writes a trace or the reason why there is none."""

    def __init__(self, order: ProfileOrder, rank: int) -> None:
        super().__init__(name="torchdeck-profiler", daemon=True)
        self._files, self._seconds, self._rank = ProfileLayout(order.folder), order.seconds, rank
        self._wanted_end = threading.Event()
        self._free = threading.Event()
        self._why = ""

    def run(self) -> None:
        part = self._files.part(self._rank)
        try:
            self._profile(part)
        except Exception as error:  # noqa: BLE001 - torch's API differs between versions, a disk may be full
            self._refuse(f"{type(error).__name__}: {error}")
        finally:
            self._free.set()
            part.unlink(missing_ok=True)

    def end(self, why: str) -> None:
        """End the recording; returns once torch's profiler is free."""
        if threading.current_thread() is not self and self.is_alive():
            self._why = self._why or why
            self._wanted_end.set()
            self._free.wait(END_LIMIT)

    def _profile(self, part: Path) -> None:
        if "torch.autograd.profiler" not in sys.modules:
            self._refuse("the program has not imported torch")
            return
        with self._alone():
            why = why_not()
            if why:
                self._refuse(why)
                return
            profiler = _profiler()
            profiler.start()
            setattr(profiler.profiler, OURS, True)
            try:
                seconds = self._record()
            finally:
                profiler.stop()
        self._free.set()
        profiler.export_chrome_trace(str(part))
        write_compressed(part, self._files.trace(self._rank))
        part.unlink()
        write_json(
            self._files.summary(self._rank),
            {"seconds": round(seconds, 2), "early": self._why},
            durable=False,
        )

    def _record(self) -> float:
        """Wait while torch records; return the seconds."""
        begun, before = time.monotonic(), _resident()
        while (passed := time.monotonic() - begun) < self._seconds:
            if self._wanted_end.wait(TICK):
                break
            if _resident() - before > MOST_MEMORY:
                self._why = f"the process grew by {MOST_MEMORY >> 20} MiB"
                break
        return passed

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """End this profile before the program starts one of its own."""
        module: Any = sys.modules["torch.autograd.profiler"]
        names = ("_prepare_profiler", "_enable_profiler")
        originals = {name: getattr(module, name) for name in names if hasattr(module, name)}

        def first(original: Any) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                self.end("the program started torch.profiler itself")
                return original(*arguments, **options)

            return call

        for name, original in originals.items():
            setattr(module, name, first(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(module, name, original)

    def _refuse(self, why: str) -> None:
        with contextlib.suppress(OSError):
            write_json(self._files.refusal(self._rank), {"why": why[:600]}, durable=False)


def why_not() -> str:
    """Return why torch's profiler, which is imported, cannot run in this process; empty if it can."""
    profiler: Any = sys.modules["torch.autograd.profiler"]
    kinds: tuple[type, ...] = (profiler.profile,)
    outer: Any = sys.modules.get("torch.profiler.profiler")
    if outer is not None:
        kinds = (*kinds, outer._KinetoProfile)  # noqa: SLF001 - the base of all public ones
    # type() and not isinstance(): that asks the object, and lazy ones would do something
    if getattr(profiler, "_is_profiler_enabled", False) or any(
        issubclass(type(each), kinds) and OURS not in vars(each) for each in gc.get_objects()
    ):
        return "the program uses torch.profiler itself"
    return ""


def _profiler() -> Any:
    """Return a profiler of all threads. Raises TypeError if this torch has none."""
    torch_profiler: Any = importlib.import_module("torch.profiler")
    make: Any = importlib.import_module("torch._C._profiler")._ExperimentalConfig  # noqa: SLF001 - there is no other
    try:
        config = make(profile_all_threads=True, trace_only=True)
    except TypeError:  # before torch 2.13
        config = make(profile_all_threads=True)
    activities = [torch_profiler.ProfilerActivity.CPU]
    if sys.modules["torch"].cuda.is_initialized():
        activities.append(torch_profiler.ProfilerActivity.CUDA)
    made: Any = torch_profiler.profile(activities=activities, experimental_config=config)
    setattr(made, OURS, True)
    return made


def write_compressed(source: Path, target: Path) -> None:
    """Compress `source` into `target`, which appears once it is complete."""
    part = target.with_name(f"{target.name}.part")
    try:
        with source.open("rb") as read, gzip.open(part, "wb", compresslevel=3) as write:
            shutil.copyfileobj(read, write, 1 << 20)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - twenty times a second
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
