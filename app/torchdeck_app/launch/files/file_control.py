"""File commands of the user, with their questions and messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDialog, QFileDialog, QMessageBox, QWidget

from torchdeck.config.starting_files import Remains, preset_files, what_remains
from torchdeck.config.toml.merge import MergeError
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.files.document_file import DocumentFile
from torchdeck_app.launch.files.file_dialogs import FolderDialog, MergeDialog
from torchdeck_app.launch.files.notice import Answer, Notice
from torchdeck_app.launch.files.run_file import DiskChange, DiskText
from torchdeck_app.widgets.dialogs import Choice, ask

DISK = "disk"
"""Topic of messages about a change on disk."""
BEGUN = "begun"
"""Topic of messages about an opened document; they end with its launch."""
_FILTER = "Run files and scripts (*.toml *.py);;All files (*)"
_NEXT: dict[Remains, str] = {
    "nothing": "",
    "plan only": "Planning only: these machines are described, not contacted.",
    "batch plan": "Build its batch plan before Launch, as its first lines say.",
    "script": "Name your script in it: run.script.",
    "files": "Name your folder in it before Launch, as its first lines say.",
}


class FileControl(QObject):
    """Controller of the dialogs and notices for a DocumentFile."""

    def __init__(
        self,
        file: DocumentFile,
        document: RunDocument,
        operations: Operations,
        notice: Notice,
        window: QWidget,
        drafts: Path,
    ) -> None:
        """Args:
        file: the controlled file.
        document: its document.
        operations: runs reading of presets.
        notice: shows messages.
        window: parent of dialogs.
        drafts: suggested folder for new files.
        """
        super().__init__(window)
        self._file, self._document, self._operations = file, document, operations
        self._notice, self._window, self._drafts = notice, window, drafts
        self.dialog: QDialog | None = None
        """The one that was opened last."""
        self._after_save: Callable[[], None] | None = None
        self.elsewhere: Callable[[Path], bool] | None = None
        """Opens a path in another tab; returns False if it is to be opened here. None: there are no tabs."""
        file.opened.connect(self._opened)
        file.failed.connect(self._failed)
        file.saved.connect(self._saved)
        file.changed_on_disk.connect(self._changed)
        file.in_step.connect(lambda: self._notice.clear(DISK))

    def open_path(self, path: Path) -> None:
        """Open a run file, or create one for a script, after a question about unsaved changes."""
        if self.elsewhere is not None and self.elsewhere(path):
            return
        self._guarded(lambda: self._file.open(path))

    def open_text(self, text: str, path: Path | None, name: str) -> None:
        """Begin with a text that is in no file."""
        self._guarded(lambda: self._file.begin(text, path, name))

    def new_from_preset(self, name: str) -> None:
        """Create an unsaved copy; a preset of several files is first written to a folder."""
        target = self._drafts / name / "run.toml"

        def begin(files: dict[Path, str]) -> None:
            if self._file.is_closed:
                return
            if len(files) > 1:
                self._ask_folder(name, files, target)
                return
            text = files[target]
            self._guarded(lambda: self._file.begin(text, None, name, _NEXT[what_remains(text)]))

        self._operations.run(
            "reading a preset",
            lambda *_: preset_files(name, target),
            done=begin,
            failed=lambda error: self._failed(f"The preset {name} cannot be opened: {error}"),
        )

    def choose_file(self, title: str = "Open a run file or a script", pattern: str = _FILTER) -> None:
        """Ask which file to open."""
        dialog = self._file_dialog(title)
        dialog.setNameFilter(pattern)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda name: self.open_path(Path(name)))
        dialog.open()

    def choose_script(self) -> None:
        """Ask for the script of a new run file."""
        self.choose_file("Start from a script", "Python files (*.py)")

    def save(self) -> None:
        """Save, and ask for the file if there is none."""
        if not self._file.save():
            self.save_as()

    def save_as(self) -> None:
        """Ask for a file and save."""
        dialog = self._file_dialog("Save the run file")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter("Run files (*.toml);;All files (*)")
        dialog.setDefaultSuffix("toml")
        path = self._document.path
        dialog.selectFile(
            str(path if path is not None else Path.home() / f"{_file_name(self._file.name)}.toml")
        )
        dialog.fileSelected.connect(lambda name: self._file.save_as(Path(name)))
        dialog.rejected.connect(self._forget_after_save)
        dialog.open()

    def leave(self, go_on: Callable[[], None]) -> None:
        """Call `go_on`, after a question about unsaved changes."""
        self._guarded(go_on)

    def _guarded(self, go_on: Callable[[], None]) -> None:
        if not self._file.is_worth_asking:
            go_on()
            return

        def save() -> None:
            self._after_save = go_on
            self.save()

        roles = QMessageBox.ButtonRole
        self.dialog = ask(
            self._window,
            f"Save the changes of {self._file.name}?",
            "Your changes will be lost if you don't save them.",
            (
                Choice("&Save", roles.AcceptRole, save),
                Choice("&Discard", roles.DestructiveRole, go_on),
                Choice("&Cancel", roles.RejectRole, lambda: None),
            ),
        )

    def _file_dialog(self, title: str) -> QFileDialog:
        folder = self._document.folder if self._document.path is not None else Path.home()
        dialog = QFileDialog(self._window, title, str(folder))
        dialog.finished.connect(dialog.deleteLater)
        self.dialog = dialog
        return dialog

    def _ask_folder(self, name: str, files: dict[Path, str], target: Path) -> None:
        dialog = FolderDialog([path.name for path in files], self._drafts / name, self._window)

        def write(folder: Path) -> None:
            contents = {folder / path.relative_to(target.parent): text for path, text in files.items()}
            self._guarded(lambda: self._file.write_and_open(contents))

        dialog.folder_chosen.connect(write)
        dialog.finished.connect(dialog.deleteLater)
        self.dialog = dialog
        dialog.open()

    def _opened(self, note: str) -> None:
        self._after_save = None
        if self._file.damage:
            self._notice.say(f"Only the readable part is shown: {self._file.damage}.", "error")
        elif note:
            self._notice.say(note, topic=BEGUN)
        else:
            self._notice.clear()

    def _saved(self) -> None:
        go_on, self._after_save = self._after_save, None
        if self._notice.topic == "failed":
            self._notice.clear()
        if go_on is not None:
            self._guarded(go_on)  # the text may have changed while it was written

    def _forget_after_save(self) -> None:
        self._after_save = None

    def _failed(self, sentence: str) -> None:
        if self._file.is_closed:
            return
        self._after_save = None
        self._notice.say(sentence, "error", topic="failed")

    def _changed(self, change: DiskChange) -> None:
        self._after_save = None
        name = change.path.name
        keep = Answer("&Keep mine", lambda: self._file.keep(change))
        disk = change.disk
        if disk is None:
            again = Answer("&Save it again", self.save)
            self._notice.say(
                f"{name} was moved or deleted. The text shown here is not saved.",
                "warning",
                (again, keep),
                topic=DISK,
            )
            return
        reload = Answer("&Take theirs" if change.is_edited else "&Reload", lambda: self._file.reload(disk))
        said = f"{name} is not saved: it" if change.saving else name
        answers = (
            (Answer("&Merge …", lambda: self._merge(disk)), reload, keep)
            if change.is_edited
            else (reload, keep)
        )
        what = " while it was edited here" if change.is_edited else ""
        self._notice.say(f"{said} was changed on disk{what}.", "warning", answers, topic=DISK)

    def _merge(self, disk: DiskText) -> None:
        try:
            merged = self._file.merge(disk)
        except MergeError as error:
            self._notice.say(
                f"The two cannot be merged key by key: {error}. Choose one of them.",
                "warning",
                (
                    Answer("&Take theirs", lambda: self._file.reload(disk)),
                    Answer(
                        "&Keep mine", lambda: self._file.keep(DiskChange(disk.path, disk, is_edited=True))
                    ),
                ),
                topic=DISK,
            )
            return
        if not merged.conflicts:
            self._file.take_merged(merged.text, disk)
            names = ", ".join(item.name for item in merged.taken)
            self._notice.say(f"Merged; taken from disk: {names or 'comments'}. Undo reverts it.", "done")
            return
        dialog = MergeDialog(disk.path.name, merged, self._window)

        def take(choices: dict[tuple[str, ...], str]) -> None:
            try:
                text = merged.resolved(
                    {path: "theirs" if side == "theirs" else "mine" for path, side in choices.items()}
                )
            except MergeError as error:
                self._failed(f"Not merged: {error}")
                return
            self._file.take_merged(text, disk)
            self._notice.say("Merged as you chose. Undo reverts it.", "done")

        dialog.merged.connect(take)
        self.dialog = dialog
        dialog.open()


def _file_name(name: str) -> str:
    """Return a name without path separators."""
    return name.removesuffix(".toml").replace("/", "-").replace("\\", "-").strip() or "run"
