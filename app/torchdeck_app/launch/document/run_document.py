"""The run file that is edited: its text is the truth, form and editor are views of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from torchdeck.config.problems import dotted, shown
from torchdeck.config.toml.document import KeyPath, parse
from torchdeck.config.toml.edit import remove_value, set_value
from torchdeck_app.launch.document.checked import CheckedDocument, CheckRequest, check_document
from torchdeck_app.launch.document.text_change import TextChange, change_between

TYPING = "typing"
PAUSE = 1.0
"""Seconds after which typing is another act."""
_TYPING_ID = 1


class ChangeText(QUndoCommand):
    """Applies a change through `apply`; typing that goes on with a word is one command."""

    def __init__(
        self,
        change: TextChange,
        what: str,
        apply: Callable[[TextChange], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(what)
        self.change = change
        self.at = clock()
        self._apply = apply

    def redo(self) -> None:
        self._apply(self.change)

    def undo(self) -> None:
        self._apply(self.change.undo())

    def id(self) -> int:
        """Qt tries to merge commands of one id; -1 is never merged."""
        return _TYPING_ID if self.text() == TYPING else -1

    def mergeWith(self, other: QUndoCommand) -> bool:  # noqa: N802 - Qt's name
        if not isinstance(other, ChangeText) or other.at - self.at > PAUSE:
            return False
        joined = self.change.joined(other.change)
        if joined is None:
            return False
        self.change, self.at = joined, other.at
        return True


DEBOUNCE = 50
"""Milliseconds without typing after which the text is checked."""
PARSED_AT_ONCE = 1 << 16
"""Characters; of a longer text it may be an older state that `table` shows while it is not TOML."""
Edit = Callable[[str], str]


class RunDocument(QObject):
    """One text, one history for all views of it, and what it says once it is checked."""

    edited = Signal(object)
    """A TextChange, just before `text_changed`; for a view that keeps its cursor."""
    text_changed = Signal()
    path_changed = Signal()
    opened = Signal()
    """Another document was loaded: what views remember of the last one is void."""
    modified_changed = Signal(bool)
    checked = Signal(object)
    """A CheckedDocument of the newest text, soon after it changed."""

    def __init__(
        self,
        home: Path | None = None,
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            home: what relative paths are relative to while the document has no file; the user's home folder.
            parent: Qt's owner.
            clock: seconds, for what is one act of typing.
        """
        super().__init__(parent)
        self.undo_stack = QUndoStack(self)
        self._home = home or Path.home()
        self._clock = clock
        self._text = ""
        self._path: Path | None = None
        self._version = 0
        self._table: dict[str, Any] = {}
        self._parse_error = ""
        self._parsed_version = -1
        self._newest: CheckedDocument | None = None
        self._checker = Checker(self)
        self._checker.checked.connect(self._take)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._check)
        self.undo_stack.cleanChanged.connect(self._tell_modified)

    @property
    def text(self) -> str:
        return self._text

    @property
    def path(self) -> Path | None:
        """The file it belongs to; None while it has no name."""
        return self._path

    @property
    def folder(self) -> Path:
        """What relative paths in it are relative to."""
        return self._home if self._path is None else self._path.parent

    @property
    def version(self) -> int:
        """Counts the changes of the text."""
        return self._version

    @property
    def is_modified(self) -> bool:
        """Whether the text differs from what was loaded or saved last."""
        return not self.undo_stack.isClean()

    @property
    def table(self) -> Mapping[str, Any]:
        """What the last text that was TOML says; not to be changed."""
        self._parse()
        return self._table

    @property
    def parse_error(self) -> str:
        """tomllib's sentence where the text is not TOML now, else nothing."""
        self._parse()
        return self._parse_error

    @property
    def newest(self) -> CheckedDocument | None:
        """What `checked` said last; of an older text while the newest is under way."""
        return self._newest

    def load(self, text: str, path: Path | None) -> None:
        """Begin with `text`, without a history; `path` is the file it was read from or will be written to."""
        self.undo_stack.clear()
        self._newest = None
        self.opened.emit()
        self._change(change_between(self._text, text), anew=True)
        self._move(path)
        self._timer.start(0)

    def saved_as(self, path: Path) -> None:
        """The text now stands in the file `path`."""
        self.undo_stack.setClean()
        self._move(path)

    def set_text(self, text: str, what: str = TYPING) -> None:
        """Replace the text as one step of the history; typing that goes on with a word joins the last one."""
        if text != self._text:
            self._push(change_between(self._text, text), what)

    def set_value(self, path: Sequence[str | int], value: Any, literal: str = "") -> None:
        """Set one key, as `torchdeck.config.toml.edit.set_value` does, as one step named after it.

        Raises:
            EditError: the text is not TOML, or the key cannot stand there; nothing has changed.
        """
        self.edit(
            f"{dotted(path)} = {literal or shown(value, 30)}",
            lambda text: set_value(text, path, value, literal),
        )

    def reset_value(self, path: Sequence[str | int]) -> None:
        """Take one key out of the text, so that its default holds; errors as for `set_value`."""
        self.edit(f"reset {dotted(path)}", lambda text: remove_value(text, path))

    def set_values(self, values: Mapping[str | KeyPath, Any], what: str = "") -> None:
        """Set several keys as one step: dotted name or path → value, None to reset it.

        Raises:
            EditError: as `set_value`; nothing has changed.
        """

        def edits(text: str) -> str:
            for key, value in values.items():
                path = tuple(key.split(".")) if isinstance(key, str) else key
                text = remove_value(text, path) if value is None else set_value(text, path, value)
            return text

        names = [key if isinstance(key, str) else dotted(key) for key in values]
        self.edit(what or "change " + ", ".join(names), edits)

    def edit(self, what: str, edit: Edit) -> None:
        """Change the text by `edit` as one step named `what`; whatever it raises is passed on."""
        changed = edit(self._text)
        if changed != self._text:
            self._push(change_between(self._text, changed), what)

    def check_now(self) -> None:
        """Check again without a change of the text: a file that it extends may have changed."""
        self._timer.start(0)

    def close(self, seconds: float = 0.0) -> None:
        """Check no more; waits up to `seconds` for a check under way."""
        self._timer.stop()
        self._checker.close(seconds)

    def _tell_modified(self, clean: bool) -> None:  # noqa: FBT001 - what the signal brings
        self.modified_changed.emit(not clean)

    def _push(self, change: TextChange, what: str) -> None:
        self.undo_stack.push(ChangeText(change, what, self._change, self._clock))
        self._timer.start(DEBOUNCE if what == TYPING else 0)

    def _change(self, change: TextChange, *, anew: bool = False) -> None:
        """What undo, redo and every edit go through; `anew`: nothing of the text before is kept."""
        if anew:
            self._table, self._parsed_version = {}, -1
        elif len(self._text) <= PARSED_AT_ONCE:
            self._parse()  # the last text that was TOML is kept
        self._text = change.apply(self._text)
        self._version += 1
        self._timer.start(DEBOUNCE)
        self.edited.emit(change)
        self.text_changed.emit()

    def _move(self, path: Path | None) -> None:
        if path is not None:
            path = path.absolute()
        if path != self._path:
            self._path = path
            self._timer.start(0)
            self.path_changed.emit()

    def _parse(self) -> None:
        if self._parsed_version == self._version:
            return
        self._parsed_version = self._version
        try:
            self._table, self._parse_error = parse(self._text), ""
        except (ValueError, RecursionError) as error:
            self._parse_error = str(error)

    def _check(self) -> None:
        self._checker.check(CheckRequest(self._version, self._text, self._path, self.folder))

    def _take(self, outcome: CheckedDocument) -> None:
        if outcome.version != self._version or outcome.path != self._path:
            return  # a newer one is on its way
        if outcome.table is not None and self._parsed_version != self._version:
            self._table, self._parse_error = dict(outcome.table), ""
            self._parsed_version = self._version
        self._newest = outcome
        self.checked.emit(outcome)


class Checker(QObject):
    """A thread lives only while there is something to check, so that nothing is left behind."""

    checked = Signal(object)
    """A CheckedDocument, in the GUI thread."""
    _arrived = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._waiting: CheckRequest | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def check(self, request: CheckRequest) -> None:
        """Check `request` next, in place of one that still waits."""
        with self._lock:
            self._waiting = request
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checking the document", daemon=True)
                self._thread.start()

    def close(self, seconds: float = 0.0) -> None:
        """Deliver nothing any more; waits up to `seconds` for a check under way."""
        self._closed = True
        with self._lock:
            self._waiting, thread = None, self._thread
        if thread is not None and seconds:
            thread.join(seconds)

    def _run(self) -> None:
        """In the thread."""
        while True:
            with self._lock:
                request, self._waiting = self._waiting, None
                if request is None:
                    self._thread = None
                    return
            outcome = check_document(request)
            if self._closed:
                continue
            try:
                self._arrived.emit(outcome)
            except RuntimeError:  # the document was closed meanwhile, and Qt's part of this is gone
                self._closed = True

    def _deliver(self, outcome: CheckedDocument) -> None:
        if not self._closed:
            self.checked.emit(outcome)
