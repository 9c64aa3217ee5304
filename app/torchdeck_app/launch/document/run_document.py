"""Run file being edited: its text is the single source of truth, form and editor are views of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from torchdeck.config.problems import dotted, shown
from torchdeck.config.toml.document import KeyPath, parse
from torchdeck.config.toml.edit import remove_value, set_value
from torchdeck_app.bridge.background_loop import Feed
from torchdeck_app.launch.document.checked_text import CheckedDocument, CheckRequest, check_document

TYPING = "typing"
PAUSE = 1.0
"""Seconds after which typing starts a new undo step."""
_TYPING_ID = 1


class ChangeText(QUndoCommand):
    """Undo command that applies a change through `apply`; typing within a word is one command."""

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
        """Return the merge id: Qt tries to merge commands of one id; -1 is never merged."""
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
Edit = Callable[[str], str]


class RunDocument(QObject):
    """Document with one text, one undo history for all views, and its checked content."""

    edited = Signal(object)
    """Emitted with a TextChange just before `text_changed`; for a view that keeps its cursor."""
    text_changed = Signal()
    path_changed = Signal()
    opened = Signal()
    """Emitted when another document was loaded: views drop their state."""
    checked = Signal(object)
    """Emitted with a CheckedDocument of the newest text, soon after it changed."""

    def __init__(
        self,
        home: Path | None = None,
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        home: base of relative paths while the document has no file. Default: the user's home folder.
        parent: Qt parent.
        clock: seconds, to group typing into undo steps.
        """
        super().__init__(parent)
        self.undo_stack = QUndoStack(self)
        self._home = home or Path.home()
        self._clock = clock
        self._text = ""
        self._path: Path | None = None
        self._version = 0
        self._table: Mapping[str, Any] = {}
        """Table of the last valid text that was checked."""
        self._newest: CheckedDocument | None = None
        self._checker: Feed[CheckRequest, CheckedDocument] = Feed(
            "checking the document", check_document, parent=self
        )
        self._checker.answered.connect(self._take)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._check)

    @property
    def text(self) -> str:
        return self._text

    @property
    def path(self) -> Path | None:
        """Return its file; None while it is unnamed."""
        return self._path

    @property
    def folder(self) -> Path:
        """Base of relative paths."""
        return self._home if self._path is None else self._path.parent

    @property
    def version(self) -> int:
        """Return the number of changes of the text."""
        return self._version

    @property
    def table(self) -> Mapping[str, Any]:
        """Return the content of the text, or of the last valid one if it is not TOML now; read-only."""
        try:
            return parse(self._text)
        except (ValueError, RecursionError):
            return self._table

    @property
    def newest(self) -> CheckedDocument | None:
        """Return the last result of `checked`; outdated while a check is running."""
        return self._newest

    def load(self, text: str, path: Path | None) -> None:
        """Load `text` with an empty undo history; `path` is the file it was read from or will be written
        to.
        """
        self.undo_stack.clear()
        self._newest = None
        self.opened.emit()
        self._table = {}
        self._change(change_between(self._text, text))
        self._move(path)
        self._timer.start(0)

    def saved_as(self, path: Path) -> None:
        """Register that the text was saved as `path`."""
        self.undo_stack.setClean()
        self._move(path)

    def set_text(self, text: str, what: str = TYPING) -> None:
        """Replace the text as one undo step; typing within a word is merged with the last one."""
        if text != self._text:
            self._push(change_between(self._text, text), what)

    def set_value(self, path: Sequence[str | int], value: Any, literal: str = "") -> None:
        """Set one key, as `torchdeck.config.toml.edit.set_value` does, as one undo step named after it.

        Raises:
            EditError: the text is not TOML, or the key is not possible there; nothing has changed.
        """
        self.edit(
            f"{dotted(path)} = {literal or shown(value, 30)}",
            lambda text: set_value(text, path, value, literal),
        )

    def set_values(self, values: Mapping[str | KeyPath, Any], what: str = "") -> None:
        """Set several keys as one undo step: dotted name or path → value, None to reset it.

        Raises:
            EditError: see `set_value`; nothing has changed.
        """

        def edits(text: str) -> str:
            for key, value in values.items():
                path = tuple(key.split(".")) if isinstance(key, str) else key
                text = remove_value(text, path) if value is None else set_value(text, path, value)
            return text

        names = [key if isinstance(key, str) else dotted(key) for key in values]
        self.edit(what or "change " + ", ".join(names), edits)

    def edit(self, what: str, edit: Edit) -> None:
        """Change the text by `edit` as one undo step named `what`; its exceptions are passed on."""
        changed = edit(self._text)
        if changed != self._text:
            self._push(change_between(self._text, changed), what)

    def check_now(self) -> None:
        """Check again without a change of the text: a file that it extends may have changed."""
        self._timer.start(0)

    def close(self, seconds: float = 0.0) -> None:
        """Stop checking; wait up to `seconds` for a running check."""
        self._timer.stop()
        self._checker.stop(seconds)

    def _push(self, change: TextChange, what: str) -> None:
        self.undo_stack.push(ChangeText(change, what, self._change, self._clock))
        self._timer.start(DEBOUNCE if what == TYPING else 0)

    def _change(self, change: TextChange) -> None:
        """Apply a change, for undo, redo and every edit."""
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

    def _check(self) -> None:
        self._checker.ask(CheckRequest(self._version, self._text, self._path, self.folder))

    def _take(self, outcome: CheckedDocument) -> None:
        if outcome.version != self._version or outcome.path != self._path:
            return  # a newer one is coming
        if outcome.table is not None:
            self._table = outcome.table
        self._newest = outcome
        self.checked.emit(outcome)


# Difference between two texts as one replaced piece; merging of pieces into one undo step.


@dataclass(frozen=True)
class TextChange:
    """Change at offset `at` that replaces `removed` by `inserted`."""

    at: int
    removed: str
    inserted: str

    def apply(self, text: str) -> str:
        """Return `text` with the change applied."""
        return text[: self.at] + self.inserted + text[self.at + len(self.removed) :]

    def undo(self) -> TextChange:
        """Return the inverse change."""
        return TextChange(self.at, self.inserted, self.removed)

    def joined(self, later: TextChange) -> TextChange | None:
        """Return both changes as one if `later` continues the same word, typed or deleted; else None."""
        if not self.removed and not later.removed:
            goes_on = later.at == self.at + len(self.inserted)
            new_word = self.inserted[-1:].isspace() and not later.inserted[:1].isspace()
            if goes_on and not new_word and "\n" not in self.inserted + later.inserted:
                return TextChange(self.at, "", self.inserted + later.inserted)
        if not self.inserted and not later.inserted and "\n" not in later.removed:
            if later.at + len(later.removed) == self.at:
                return TextChange(later.at, later.removed + self.removed, "")
            if later.at == self.at:
                return TextChange(self.at, self.removed + later.removed, "")
        return None


def change_between(before: str, after: str) -> TextChange:
    """Return the smallest change from `before` to `after`."""
    start = _common_start(before, after)
    most = min(len(before), len(after)) - start
    end = _common_end(before, after, most)
    return TextChange(start, before[start : len(before) - end], after[start : len(after) - end])


def _common_start(one: str, other: str) -> int:
    """Find the common prefix by bisection with slice comparisons: letter by letter is slow in a long text."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
