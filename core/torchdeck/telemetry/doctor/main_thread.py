"""Activity of the main thread, by its Python stack; stacks of all threads."""

from __future__ import annotations

import opcode
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from torchdeck.contract.doctor.rank_heartbeat import INTERVAL
from torchdeck.telemetry.doctor.thread_stacks import Place, ThreadStacks

WINDOW = 20
"""Samples that `MainThread` compares."""
SHARE = 0.002
"""Share of the time that samples may take; faulthandler keeps the program from running meanwhile."""
FEWEST = 8
"""Samples after which the main thread counts as being at one place all the time, if they are far apart."""
_LIBRARY = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/"
    r"|/torchdeck/(?:agent|contract|data|distributed|environment|integrations|recipes|telemetry|tracing|trainers)/"
)
"""Files that are not the user's: as in `torchdeck.runs.failure`."""
_OWN_WAITING = "torchdeck/distributed/(?:group|store|exchange)/"
"""Ranks of recipes exchange small messages without a collective."""
_COMPUTING = re.compile(
    rf"/(?:site|dist)-packages/(?!torch/distributed/)|/(?!{_OWN_WAITING})torchdeck/(?:distributed|recipes)/"
    r"|/c[a-z2-7]{51}\.py$"
)
"""Files of libraries, and what torch's inductor has written into its cache."""
_ACTIVITIES = (
    (
        "waiting",
        r"/torch/distributed/(?:distributed_c10d|c10d_logger|rendezvous|_functional_collectives)\.py$",
    ),
    ("waiting", f"/{_OWN_WAITING}"),
    (
        "compiling",
        (
            r"/torch/_dynamo/(?!(?:eval_frame|external_utils)\.py)"
            r"|/torch/_inductor/(?!runtime/|cudagraph_|(?:output_code|utils)\.py)"
            r"|/torch/_functorch/_aot_autograd/(?!runtime_wrappers|subclass_codegen|utils\.py)"
            r"|/triton/(?:compiler|backends)/|/torch/utils/cpp_extension\.py$"
        ),
    ),
    ("saving", r"/torch/serialization\.py$|/torch/distributed/checkpoint/|/safetensors/"),
    ("loading data", r"/torch/utils/data/"),
    ("importing", r"^<frozen importlib"),
)
"""Activity → files of frames that show it; the innermost frame that shows one decides."""
_RUNS_COMPILED = frozenset(("run", "runner", "__call__"))
"""Functions of compilers that run what was compiled, as the files that are left out above do."""
_FILES = [(activity, re.compile(files)) for activity, files in _ACTIVITIES]
_NAMES = re.compile(
    r"(?:^|_)(?:eval|valid|test|infer|generat|sampl|score|predict|preprocess|prepar|tokeniz|download|warm|compil|save|"
    r"checkpoint|export|load|bench)"
)
"""Functions of the user that often take long."""


def _is_call(code: bytes, at: int) -> bool:
    return 0 <= at < len(code) and opcode.opname[code[at]].startswith(("CALL", "PRECALL"))


def is_users(file: str) -> bool:
    """Return whether a file is the user's own."""
    return not _LIBRARY.search(file)


def activity_of(places: list[Place]) -> str:
    """Return what a stack shows: an activity of `_ACTIVITIES`, `busy`, or "".

    `busy`: in a function of the user that often takes long, by its name.
    """
    for place in places:
        for name, files in _FILES:
            if files.search(place.file) and _shows(name, place):
                return name
    busy = (is_users(place.file) and _NAMES.search(place.function.lower()) for place in places)
    return "busy" if any(busy) else ""


def _shows(activity: str, place: Place) -> bool:
    if activity == "saving" and place.file.endswith("serialization.py"):
        return "save" in place.function
    return activity != "compiling" or place.function not in _RUNS_COMPILED


def is_computing(places: list[Place]) -> bool:
    """Return whether a stack's innermost frame is a library's, such as torch's, which does not wait."""
    return bool(places) and bool(_COMPUTING.search(places[0].file))


class Sample(NamedTuple):
    """The last seconds of the main thread."""

    activity: str
    place: str
    places: int
    """0: its stack cannot be read."""
    computes: bool


class MainThread:
    """Samples the main thread."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        """Sample by `clock`; a sample costs the seconds by which it advances `spent`."""
        self._stacks = ThreadStacks()
        self._clock, self._spent = clock, spent
        self._next = 0.0
        self._last: Sample | None = None
        self._progress = 0
        self._seen: deque[tuple[int, bool]] = deque(maxlen=WINDOW)

    def sample(self, progress: int) -> Sample:
        """Look once, or return the last sample if another one would cost too much so soon.

        It takes 1 to 2 ms with ten threads, for the many small writes of faulthandler.

        As long as samples are few and far between, two places are assumed.

        Args:
            progress: a number; stacks of a time before it changed last do not count.
        """
        if self._last is not None and self._clock() < self._next:
            return self._last
        begun = self._spent()
        found = self._sampled(progress)
        pause = (self._spent() - begun) / SHARE
        sparse = pause > INTERVAL
        unsure = sparse and found.places == 1 and len(self._seen) < FEWEST
        self._last = found._replace(places=2) if unsure else found
        self._next = self._clock() + pause if sparse else 0.0
        return self._last

    def _sampled(self, progress: int) -> Sample:
        if progress != self._progress:
            self._progress = progress
            self._seen.clear()
        places = self._stacks.main_thread()
        if places:
            stack = hash(tuple((place.file, place.line) for place in places))
            self._seen.append((stack, is_computing(places)))
        else:
            self._seen.clear()
        different = len({stack for stack, _ in self._seen})
        return Sample(
            activity_of(places), shown_place(places), different, any(found for _, found in self._seen)
        )

    def all_threads(self) -> list[dict[str, Any]]:
        """Return every thread's name and frames, the main thread first."""
        # not threading.enumerate, which takes a lock that the program may hold
        names = {ident: thread.name for ident, thread in dict(getattr(threading, "_active", {})).items()}
        main = threading.main_thread().ident
        found = []
        for ident, places in self._stacks.all_threads().items():
            if ident == main and places:
                places[0] = places[0]._replace(calls=_calls(ident, places[0]))
            frames = [place._asdict() for place in places]
            found.append({"main": ident == main, "name": names.get(ident, ""), "frames": frames})
        return sorted(found, key=lambda thread: not thread["main"])


def shown_place(places: list[Place]) -> str:
    """Return `train.py:84 save_model`: the innermost frame of the user's own code; empty: there is none."""
    found = next((place for place in places if is_users(place.file)), None)
    return "" if found is None else f"{found.file.rpartition('/')[2]}:{found.line} {found.function}"


def _calls(ident: int, place: Place) -> bool:
    """Return whether a thread is in a call at `place`; False if it has moved since."""
    frame = sys._current_frames().get(ident)  # noqa: SLF001 - documented; the innermost frame only
    if frame is None:
        return False
    code, at, line = frame.f_code, frame.f_lasti, frame.f_lineno
    return (code.co_filename, line) == (place.file, place.line) and _is_call(code.co_code, at)
