"""Metrics writer: rows are on file when a call returns, whatever happens to the process next.

Standard library, Python 3.10: this runs in the ranks and in the agent. segment_format.py describes the files.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import operator
import os
import secrets
import struct
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, SupportsFloat

from torchdeck.contract.metrics.segment_format import NAME_LIMIT, SEGMENT_SUFFIX, SOURCES
from torchdeck.telemetry.media.values import Media
from torchdeck.telemetry.media.writer import MediaWriter
from torchdeck.telemetry.table import Table

KEY_SET_LIMIT = 64
"""Sets of names that get a table of their own, held open; later sets are split into one table per name."""
TABLE_LIMIT = 4096
"""Maximum number of tables. Names made from data ("loss_of_sample_17") would otherwise fill the disk with
files.
"""
SHAPE_LIMIT = 512
"""Number of name orders cached for the fast path."""

_PLAIN = frozenset((float, int, bool))
_log = logging.getLogger("torchdeck")
_Pick = Callable[[Mapping[str, Any]], "tuple[Any, ...]"]


class MetricsWriter:
    """Appends rows of named numbers to segments in one folder.

    One row is one `pwrite` at an offset of its own, so the kernel has it when `log` returns; a row truncated
    by a full disk is overwritten by the next. Threads, signal handlers and forked children (which write
    segments of their own) may all log at any moment.

    No logged value raises: values that are not numbers are left out, and a disk that cannot be written loses
    rows. Both are reported once through the `torchdeck` logger.

    Attributes:
        lost: rows that could not be written.
    """

    def __init__(self, folder: Path, source: str = "log", media: MediaWriter | None = None) -> None:
        """Make a writer; the folder and the files are created with the first row.

        Args:
            folder: folder for segments; created if absent.
            source: kind of writer, one of `SOURCES`.
            media: writer of values that are no numbers; None: they are left out.

        Raises:
            ValueError: there is no such source.
        """
        if source not in SOURCES:
            raise ValueError(f"there is no metrics source {source!r}; sources are {', '.join(SOURCES)}")
        self._folder = folder
        self._source = source
        self._media = media
        self._warned: set[str] = set()
        self._tables: dict[tuple[str, ...], Table] = {}
        self.lost = 0
        self._begin_incarnation()
        restart = weakref.WeakMethod(self._begin_incarnation)
        os.register_at_fork(after_in_child=lambda: (method := restart()) and method())

    def log(
        self, values: Mapping[str, SupportsFloat], step: int | None = None, *, at: float | None = None
    ) -> None:
        """Write one row.

        Args:
            values: name → number: Python and numpy numbers, tensors of one element. NaN and infinities stay.
            step: the x value. Default: the row after this set's last, or the newest step that was logged,
                whichever is later.
            at: unix seconds of the row. Default: now.
        """
        try:
            table, pick = self._shapes[tuple(values)]
            numbers = pick(values)
            if step.__class__ is not int:
                step = self._step_after(table, step)
            if not _PLAIN.issuperset(map(type, numbers)):
                numbers = tuple(map(outside_autograd, numbers))
            table.write(table.pack(step, time.time() if at is None else at, *numbers))
            table.last_step = self._last_step = step
            if self._failing:
                self._say_recovered()
            return
        except Exception:  # noqa: BLE001, S110 - whatever it was, the careful way finds out and says it
            pass
        try:
            self._log_carefully(values, step, at)
        except Exception as error:  # noqa: BLE001 - metrics never break a training
            with contextlib.suppress(Exception):  # the script's own logging handler may raise, too
                self._warn("", f"metrics could not be written: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Close the files. A later `log` begins new ones."""
        if self._media is not None:
            self._media.close()
        with self._lock:
            for table in self._tables.values():
                table.seal_rest()
            self._begin_incarnation()

    def __enter__(self) -> MetricsWriter:  # noqa: PYI034 - typing.Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin_incarnation(self) -> None:
        """Drop every table: in a forked child the files are the parent's, and its lock will never be
        released.
        """
        for table in self._tables.values():
            table.close()
        self._lock = threading.RLock()  # for creating tables only; reentrant for signal handlers
        self._tables = {}
        self._shapes: dict[tuple[str, ...], tuple[Table, _Pick]] = {}
        self._last_step = 0
        self._failing = 0
        self._file_numbers = itertools.count()
        self._incarnation = f"{self._source}-{os.getpid()}-{time.time_ns()}-{secrets.token_hex(4)}"

    def _log_carefully(self, values: Any, step: Any, at: float | None) -> None:
        """Log like `log`, for names seen for the first time and for values that need closer checks."""
        if not isinstance(values, Mapping):
            self._warn(
                "", f"log() takes a mapping of names to numbers, not {type(values).__name__}: left out"
            )
            return
        number = self._step_number(step)
        shown = {name: value for name, value in values.items() if isinstance(value, Media)}
        if shown:
            self._log_media(shown, number)
            values = {name: value for name, value in values.items() if name not in shown}
        numbers = self._numbers(values)
        if not numbers:
            return
        with self._lock:
            for table in self._tables_for(tuple(sorted(numbers))):
                self._write(table, self._step_after(table, number), numbers, at)
            if len(numbers) == len(values):
                self._remember_shape(tuple(values))

    def _log_media(self, values: Mapping[Any, Media], step: int | None) -> None:
        """Write images, texts, histograms and tables; without a step they are of the newest one logged."""
        for name, value in values.items():
            if not self._is_name(name):
                continue
            if self._media is None:
                self._warn(name, f"a metric is one number, not {describe(value)}: left out")
                continue
            try:
                self._media.write(name, value, self._last_step if step is None else step)
            except Exception as error:  # noqa: BLE001 - a foreign array may raise anything
                self._warn(name, f"{error}")

    def _write(self, table: Table, step: int, numbers: Mapping[str, float], at: float | None) -> None:
        row = table.pack(step, time.time() if at is None else at, *(numbers[key] for key in table.keys))
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            table.open(self._source, self._new_path)
            table.write(row)
        except OSError as error:
            self.lost += 1
            self._failing += 1
            if self._failing == 1:
                _log.warning("metrics are being lost: %s: %s", self._folder, error)
            return
        table.last_step = self._last_step = step
        if self._failing:
            self._say_recovered()

    def _say_recovered(self) -> None:
        _log.warning("metrics are written again; %d rows were lost (%s)", self._failing, self._folder)
        self._failing = 0

    def _tables_for(self, keys: tuple[str, ...]) -> list[Table]:
        """Return the table of this set of names, or if there are too many sets, one table for each name."""
        table = self._tables.get(keys)
        if table is not None:
            return [table]
        if len(self._tables) < KEY_SET_LIMIT:
            return [self._new_table(keys, spilled=False)]
        return [table for key in keys if (table := self._spilled_table(key)) is not None]

    def _spilled_table(self, key: str) -> Table | None:
        table = self._tables.get((key,))
        if table is not None:
            return table
        if len(self._tables) < TABLE_LIMIT:
            return self._new_table((key,), spilled=True)
        self._warn("", f"more than {TABLE_LIMIT} sets of metric names: {key!r} and later ones are left out")
        return None

    def _new_table(self, keys: tuple[str, ...], *, spilled: bool) -> Table:
        table = self._tables[keys] = Table(keys, spilled=spilled)
        return table

    def _new_path(self) -> Path:
        number = next(self._file_numbers)
        return self._folder / f"{self._incarnation}-{number}{SEGMENT_SUFFIX}"

    def _remember_shape(self, keys: tuple[str, ...]) -> None:
        """Let later rows with these names in this order take the fast path, if their table stays open."""
        table = self._tables.get(tuple(sorted(keys)))
        if table is None or table.spilled:
            return
        if len(self._shapes) >= SHAPE_LIMIT:
            self._shapes.clear()
        only = keys[0]
        pick = operator.itemgetter(*table.keys) if len(keys) > 1 else lambda values: (values[only],)
        self._shapes[keys] = (table, pick)

    def _step_after(self, table: Table, step: Any) -> int:
        if step is None:
            return max(table.last_step + 1, self._last_step)
        return operator.index(step)

    def _step_number(self, step: Any) -> int | None:
        """Return `step` as a 64-bit integer; None, reported once, if it is not one."""
        if step is None:
            return None
        try:
            return as_step(step)
        except Exception:  # noqa: BLE001 - a foreign __int__ may raise anything
            self._warn(
                "step", f"a step is a whole number, not {describe(step)}: counted on from the last one"
            )
            return None

    def _numbers(self, values: Mapping[Any, Any]) -> dict[str, float]:
        """Return the values that are numbers, by usable names; the others are reported once and left out."""
        numbers = {}
        for name, value in values.items():
            if not self._is_name(name):
                continue
            try:
                numbers[name] = as_float(value)
            except Exception:  # noqa: BLE001 - a foreign __float__ may raise anything
                self._warn(name, f"a metric is one number, not {describe(value)}: left out")
        return numbers

    def _is_name(self, name: object) -> bool:
        """Return whether a metric may have this name; another one is reported once."""
        if isinstance(name, str) and 0 < len(name) <= NAME_LIMIT:
            return True
        self._warn(repr(name)[:80], f"a metric's name is 1 to {NAME_LIMIT} characters: left out")
        return False

    def _warn(self, name: str, message: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            _log.warning("torchdeck.log: %s%s", f"{name}: " if name else "", message)


# Accepted numbers of a metric. Standard library: tensors are recognised by their behaviour.

_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")


def outside_autograd(value: Any) -> Any:
    """Return `value`, detached from autograd if attached: torch warns about floats of tensors that require
    grad.
    """
    return value.detach() if getattr(value, "requires_grad", False) else value


def as_float(value: Any) -> float:
    """Return `value` as a float, by the rule of the writer's fast path: a string is not a number, even a
    numeric one.

    Raises:
        Exception: it is not one number; a foreign `__float__` may raise anything.
    """
    return float(_DOUBLE.unpack(_DOUBLE.pack(outside_autograd(value)))[0])


def as_step(value: Any) -> int:
    """Return `value` as a 64-bit integer, rounded towards zero.

    Raises:
        Exception: it is not one number or does not fit; a foreign `__int__` may raise anything.
    """
    if isinstance(value, (str, bytes)):
        raise TypeError("a text is no step")
    number = int(value)
    _LONG.pack(number)
    return number


def describe(value: Any) -> str:
    """Describe a value of any type briefly, accessing only its shape."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    if isinstance(value, (str, bytes)):
        return f"{type(value).__name__} {value[:40]!r}"
    return type(value).__name__
