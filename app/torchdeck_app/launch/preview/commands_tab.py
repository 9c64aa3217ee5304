"""Commands tab: argv and environment of each node, to read, copy and export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtGui import QColor, QGuiApplication, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.plan.preview import Preview
from torchdeck.runs.folders.run_directory import slug
from torchdeck.shown_text import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.command_text import (
    Kind,
    command_line,
    held_secrets,
    is_secret,
    node_lines,
    write_job,
    write_script,
    write_scripts,
)
from torchdeck_app.launch.preview.preview_tab import line_label
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState

_COLOURS: Mapping[Kind, ColourName] = {
    Kind.PLAIN: "text",
    Kind.NAME: "accent",
    Kind.SLOT: "text",
    Kind.COMMENT: "secondary",
}


class CommandsView(QWidget):
    """View of what each node executes."""

    def __init__(self, theme: Theme, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._operations = operations
        self._preview: Preview | None = None
        self.nodes = NamedBox()
        self.nodes.setAccessibleName("Node")
        self.nodes.setToolTip("Node whose command is shown")
        self.nodes.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.nodes.setMinimumContentsLength(12)
        self.nodes.currentIndexChanged.connect(self._show_node)
        self.copy = QPushButton("Cop&y command")
        self.copy.setToolTip("Copy a shell command that starts this node's ranks without Torchdeck")
        self.copy.clicked.connect(self._copy)
        self.export = QPushButton("E&xport")
        self.export.setToolTip("Write scripts that start this without Torchdeck")
        self.export.setMenu(self._export_menu())
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(font(Type.MONO))
        self.text.setAccessibleName("Command and environment of the node")
        self.told = line_label(Type.SMALL, "secondary")
        self._empty = EmptyState(
            theme, "file", "Commands", "The exact command and environment of every node."
        )
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._filled())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._stack)
        theme.changed.connect(self._show_node)

    def show_preview(self, preview: Preview | None, why: str = "") -> None:
        """Show the commands of `preview`; `why` is the reason if there is none."""
        del why  # the pane shows it above
        self._preview = preview
        self._stack.setCurrentIndex(0 if preview is None else 1)
        if preview is None:
            return
        names = [shown(node.name) for node in preview.plan.nodes]
        before = self.nodes.currentText()
        if names != [self.nodes.itemText(at) for at in range(self.nodes.count())]:
            self.nodes.blockSignals(True)  # noqa: FBT003 - Qt's
            self.nodes.clear()
            self.nodes.addItems(names)
            self.nodes.setCurrentIndex(names.index(before) if before in names else 0)
            self.nodes.blockSignals(False)  # noqa: FBT003 - Qt's
        self.nodes.setEnabled(len(names) > 1)
        self._show_node()

    def save_script(self) -> QFileDialog:
        """Ask for a file and write the script of the shown node."""
        name = "" if self._node() is None else f"{self.nodes.currentText()}.sh"
        dialog = QFileDialog(self, "Export script", name, "Scripts (*.sh)")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("sh")
        dialog.selectFile(name)
        dialog.fileSelected.connect(lambda path: self._write(Path(path)))
        return _opened(dialog)

    def save_all(self) -> QFileDialog:
        """Ask for a folder and write the script of every node."""
        dialog = QFileDialog(self, "Export the scripts of all nodes into a folder")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(lambda path: self._write_all(Path(path)))
        return _opened(dialog)

    def save_job(self) -> QFileDialog:
        """Ask for a file and write the script for Slurm."""
        plan = None if self._preview is None else self._preview.plan
        name = "" if plan is None else f"{slug(plan.name)}.sbatch"
        dialog = QFileDialog(self, "Export a script for sbatch", name, "Scripts for Slurm (*.sbatch)")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("sbatch")
        dialog.selectFile(name)
        dialog.fileSelected.connect(lambda path: self._write_job(Path(path)))
        return _opened(dialog)

    def _filled(self) -> QWidget:
        bar = QHBoxLayout()
        bar.addWidget(self.nodes)
        bar.addWidget(self.told, 1)
        bar.addWidget(self.copy)
        bar.addWidget(self.export)
        filled = QWidget()
        layout = QVBoxLayout(filled)
        layout.setContentsMargins(0, GRID, 0, 0)
        layout.setSpacing(GRID)
        layout.addLayout(bar)
        layout.addWidget(self.text, 1)
        return filled

    def _export_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.addAction("&Shell script of this node …", self.save_script)
        menu.addAction("Shell scripts of &all nodes …", self.save_all)
        menu.addSeparator()
        menu.addAction("Script for S&lurm's sbatch …", self.save_job)
        return menu

    def _node(self) -> NodePlan | None:
        at = self.nodes.currentIndex()
        return None if self._preview is None or at < 0 else self._preview.plan.nodes[at]

    def _show_node(self) -> None:
        node = self._node()
        if node is None or self._preview is None:
            return
        bars = (self.text.verticalScrollBar(), self.text.horizontalScrollBar())
        places = [bar.value() for bar in bars]
        self.text.clear()
        cursor = QTextCursor(self.text.document())
        cursor.beginEditBlock()
        for number, line in enumerate(node_lines(self._preview.plan, node)):
            if number:
                cursor.insertBlock()
            for piece in line:
                cursor.insertText(piece.text, self._format(piece.kind, piece.tip))
        cursor.endEditBlock()
        for bar, place in zip(bars, places, strict=True):
            bar.setValue(place)

    def _format(self, kind: Kind, tip: str) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setForeground(QColor(self._theme.palette.named(_COLOURS[kind])))
        if kind is Kind.SLOT:
            made.setBackground(self._theme.colour("selection"))
        if tip:
            made.setToolTip(plain_tip(tip))
        return made

    def _copy(self) -> None:
        node, preview = self._node(), self._preview
        if node is not None and preview is not None:
            QGuiApplication.clipboard().setText(command_line(preview.plan, node))
            self._say(f"copied{_secrets_in([node])}")

    def _write(self, path: Path) -> None:
        node, preview = self._node(), self._preview
        if node is None or preview is None:
            return
        self._operations.run(
            f"writing {path.name}",
            lambda _progress, _cancel: write_script(preview.plan, node, path),
            done=lambda written: self._written(written, [node]),
            failed=lambda error: self._not_written(path, error),
        )

    def _write_all(self, folder: Path) -> None:
        preview = self._preview
        if preview is None:
            return
        self._operations.run(
            f"writing scripts into {folder.name}",
            lambda _progress, cancel: write_scripts(preview.plan, folder, cancel.check),
            done=lambda written: self._written(written, list(preview.plan.nodes)),
            failed=lambda error: self._not_written(folder, error),
        )

    def _write_job(self, path: Path) -> None:
        preview = self._preview
        if preview is None:
            return
        self._operations.run(
            f"writing {path.name}",
            lambda _progress, _cancel: write_job(preview.plan, path, preview.config.slurm),
            done=lambda written: self._written(written, list(preview.plan.nodes)),
            failed=lambda error: self._not_written(path, error),
        )

    def _written(self, path: Path, nodes: list[NodePlan]) -> None:
        self._say(f"written to {path}{_secrets_in(nodes)}")

    def _not_written(self, path: Path, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self._say(f"✕ {path} was not written: {why}")

    def _say(self, text: str) -> None:
        self.told.setText(text)
        self.told.setToolTip(plain_tip(text))


def _secrets_in(nodes: list[NodePlan]) -> str:
    secrets = held_secrets(nodes, is_secret)
    return f"; the values of {', '.join(secrets)} are in it" if secrets else ""


def _opened(dialog: QFileDialog) -> QFileDialog:
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog
