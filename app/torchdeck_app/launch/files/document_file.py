"""Connection of the document to its file: opening, saving, and external changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from torchdeck.config.toml.merge import Merge
from torchdeck.contract.refusal import Refusal
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.files import run_file
from torchdeck_app.launch.files.document_sources import (
    Beginning,
    RecentFiles,
    begin_with,
    write_files,
)
from torchdeck_app.launch.files.run_file import (
    INTERVAL,
    ChangedError,
    DiskChange,
    DiskText,
    FileWatch,
    Seen,
    read_text,
)

T = TypeVar("T")


class DocumentFile(QObject):
    """Document file, read and written off the GUI thread; views connect to its signals."""

    opened = Signal(str)
    """Emitted when another text is loaded, with a message for the user, if any."""
    saved = Signal()
    failed = Signal(str)
    """Emitted with an error and its reason, in one sentence."""
    changed_on_disk = Signal(object)
    """Emitted with a DiskChange."""
    in_step = Signal()
    """Emitted when messages about a change on disk are outdated."""
    status_changed = Signal()
    """Emitted when name, path or saved state changed."""

    def __init__(
        self,
        document: RunDocument,
        operations: Operations,
        parent: QObject | None = None,
        *,
        interval: float = INTERVAL,
    ) -> None:
        """Args:
        document: the edited document.
        operations: runs reading and writing.
        parent: Qt parent.
        interval: seconds between two polls of the file.
        """
        super().__init__(parent)
        self.recent = RecentFiles()
        self._document = document
        self._operations = operations
        self._base: DiskText | None = None
        self._newline = "\n"
        self._label = ""
        self._begun = ""
        self._is_saving = False
        self.is_closed = False
        self._asked, self._loaded = 0, 0  # number of documents requested, and number loaded
        self._watch = FileWatch(self, interval)
        self._watch.changed.connect(self._saw)
        document.text_changed.connect(self.status_changed)
        document.path_changed.connect(self.status_changed)

    @property
    def name(self) -> str:
        """Return the name of the document."""
        return self._label if self._document.path is None else self._document.path.name

    @property
    def base(self) -> DiskText | None:
        """Return the file as last read or saved; None while there is none."""
        return self._base

    @property
    def is_saved(self) -> bool:
        """Return whether the text is the file's."""
        return self._base is not None and self._base.text == self._document.text

    @property
    def is_worth_asking(self) -> bool:
        """Return whether the unsaved text contains work of the user."""
        return not self.is_saved and (self._base is not None or self._document.text != self._begun)

    @property
    def begun(self) -> str:
        """Return the initial text of an unnamed document."""
        return self._begun

    @property
    def newline(self) -> str:
        """Return the line ending on disk; kept even if the file is gone."""
        return self._newline

    @property
    def damage(self) -> str:
        """Return why it cannot be saved; empty if it can."""
        return "" if self._base is None else self._base.damage

    def start(self) -> None:
        """Start to watch the file."""
        self._watch.start()

    def stop(self, seconds: float = 0.0) -> None:
        """Stop watching the file."""
        self._watch.stop(seconds)

    def close(self, seconds: float) -> None:
        """Stop for good: results of reads and writes that still run are dropped."""
        self.is_closed = True
        self.stop(seconds)

    def open(self, path: Path) -> None:
        """Open a run file, or create one for a script."""
        self._begin_by(f"reading {path.name}", lambda: begin_with(path), lambda: self.recent.forget(path))

    def begin(self, text: str, path: Path | None, name: str, note: str = "") -> None:
        """Begin with a text that is in no file."""
        self._label = name
        self._asked += 1  # what is being read is not loaded any more
        self._begin(Beginning(text, path, None, note))

    def write_and_open(self, contents: Mapping[Path, str]) -> None:
        """Write new files and open the first."""
        self._begin_by("writing the files", partial(write_files, dict(contents)))

    def restore(
        self, text: str, path: Path | None, begun: str, name: str, *, has_file: bool, newline: str = "\n"
    ) -> None:
        """Restore unsaved edits of `begun`, which is the file's text if there is a file; `newline` is its
        line ending.
        """
        self._label, self._begun = name, begun
        self._asked += 1
        self._loaded += 1
        self._document.load(begun, path)
        self._document.set_text(text, "restored edits")
        self._take_base(run_file.unseen(path, begun, newline) if has_file and path is not None else None)
        self._settle("")

    def save(self) -> bool:
        """Save to its file; return False if there is none yet and a name is needed."""
        if self._document.path is None:
            return False
        self._save(self._document.path, guarded=True)
        return True

    def save_as(self, path: Path) -> None:
        """Save under another name; the user has confirmed overwriting an existing file."""
        self._save(path.absolute(), guarded=False)

    def reload(self, disk: DiskText) -> None:
        """Load the content on disk, as one undo step."""
        self._document.set_text(disk.text, "reload from disk")
        self._accept(disk)

    def keep(self, change: DiskChange) -> None:
        """Keep the document as it is; saving replaces the content on disk."""
        if change.disk is not None:
            self._accept(replace(change.disk, damage=self.damage))  # damage of the text that is kept
        else:
            self._base = None
            self._settle_status()

    def merge(self, disk: DiskText) -> Merge:
        """Merge both changes; `take_merged` puts the result into the document.

        Raises:
            MergeError: they cannot be separated by key.
        """
        return run_file.merged(self._base, self._document.text, disk)

    def take_merged(self, text: str, disk: DiskText) -> None:
        """Put a merged text into the document, as one undo step."""
        self._document.set_text(text, "merge with the file")
        self._accept(disk)

    def _begin_by(
        self, name: str, call: Callable[[], Beginning], failed: Callable[[], None] | None = None
    ) -> None:
        """Begin with the result of `call`, unless another document was requested meanwhile."""
        self._asked += 1
        asked = self._asked

        def done(beginning: Beginning) -> None:
            if asked == self._asked:
                self._begin(beginning)

        self._run(name, call, done, failed)

    def _begin(self, beginning: Beginning) -> None:
        self._loaded += 1
        self._newline, self._begun = "\n", beginning.text
        self._take_base(beginning.disk)
        self._document.load(beginning.text, beginning.path)
        if beginning.disk is not None and beginning.path is not None:
            self.recent.add(beginning.path)
        self._settle(beginning.note)

    def _settle(self, note: str) -> None:
        self._watch.watch(self._document.path)
        self.in_step.emit()
        self.opened.emit(note)
        self.status_changed.emit()

    def _take_base(self, base: DiskText | None) -> None:
        self._base = base
        if base is not None:
            self._newline = base.newline

    def _accept(self, disk: DiskText) -> None:
        self._take_base(disk)
        self._settle_status()

    def _settle_status(self) -> None:
        self.in_step.emit()
        self.status_changed.emit()
        self._watch.poke()

    def _save(self, path: Path, *, guarded: bool) -> None:
        if self._is_saving:
            return
        base, text = self._base, self._document.text
        if guarded and base is not None and base.damage:
            self.failed.emit(f"{path.name} is not saved: {base.damage}")
            return
        newline, loaded = self._newline, self._loaded

        call = partial(run_file.write, path, text, newline)
        if guarded:
            call = partial(run_file.write_unless_changed, path, text, newline, base)

        self._is_saving = True
        self._run(f"saving {path.name}", call, lambda disk: self._saved(disk, loaded), self._saving_is_over)

    def _saving_is_over(self) -> None:
        self._is_saving = False
        self._watch.watch(self._document.path)  # its reports were skipped meanwhile

    def _saved(self, disk: DiskText, loaded: int) -> None:
        self._saving_is_over()
        if loaded != self._loaded:
            return  # another document with another file is open by now
        self._base = disk
        self._document.saved_as(disk.path)
        self.recent.add(disk.path)
        self._watch.watch(disk.path)
        self._settle_status()
        self.saved.emit()

    def _saw(self, seen: Seen) -> None:
        """Handle a changed state of the file from the watch."""
        base = self._base
        if seen.path is None or seen.path != self._document.path or base is None or self._is_saving:
            return
        if seen.error:
            self.failed.emit(f"{seen.path} cannot be read: {seen.error}")
        elif seen.stamp is None:
            self.changed_on_disk.emit(DiskChange(seen.path, None, is_edited=not self.is_saved))
        elif seen.stamp != base.stamp:
            path = seen.path
            self._run(f"reading {path.name}", lambda: read_text(path), self._compare)
        else:
            self.in_step.emit()

    def _compare(self, disk: DiskText, *, saving: bool = False) -> None:
        if self._base is None and saving:
            self._base = DiskText(disk.path, "", disk.stamp, disk.newline)
        if disk.path != self._document.path or self._base is None:
            return
        if disk.text in (self._base.text, self._document.text):
            is_shown = disk.text == self._document.text
            self._accept(disk if is_shown else replace(disk, damage=self._base.damage))
            if saving and disk.text != self._document.text:
                self._save(disk.path, guarded=True)
            return
        self.changed_on_disk.emit(DiskChange(disk.path, disk, is_edited=not self.is_saved, saving=saving))

    def _run(
        self,
        name: str,
        call: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[], None] | None = None,
    ) -> None:
        def finished(result: T) -> None:
            if not self.is_closed:
                done(result)

        def told(error: Exception) -> None:
            if self.is_closed:
                return
            if failed is not None:
                failed()
            if isinstance(error, ChangedError) and (path := self._document.path) is not None:
                compare = partial(self._compare, saving=True)
                self._run(f"reading {path.name}", lambda: read_text(path), compare)
                return
            self.failed.emit(str(error) if isinstance(error, Refusal) else f"{name}: {error!r}")

        self._operations.run(name, lambda _progress, _cancel: call(), done=finished, failed=told)


# Document in the window's session: a saved one by its path, unsaved edits as text.


def document_state(file: DocumentFile, document: RunDocument) -> dict[str, Any]:
    """Return the state for `restore_document`, as JSON values."""
    path, base = document.path, file.base
    return {
        "path": None if path is None else str(path),
        "name": file.name,
        # a saved document is read from its file again
        "text": None if file.is_saved else document.text,
        "begun": None if file.is_saved else (file.begun if base is None else base.text),
        "has_file": base is not None,
        "newline": file.newline,
    }


def restore_document(file: DocumentFile, state: Mapping[str, Any]) -> None:
    """Open the last document; an invalid state is ignored."""
    path, text, begun, name = (state.get(key) for key in ("path", "text", "begun", "name"))
    where = Path(path) if isinstance(path, str) else None
    if isinstance(text, str) and isinstance(begun, str):
        called = name if isinstance(name, str) else "run"
        newline = "\r\n" if state.get("newline") == "\r\n" else "\n"
        file.restore(text, where, begun, called, has_file=state.get("has_file") is True, newline=newline)
    elif where is not None:
        file.open(where)
