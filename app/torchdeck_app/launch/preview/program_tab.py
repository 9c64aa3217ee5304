"""Program tab: settings that a script's own arguments and config files give, with their sources."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.program_preview import HEADING, UNKNOWN, ProgramPreview, ProgramRow
from torchdeck_app.launch.preview.preview_tab import Column, PreviewTab, sentence, wrapped_label
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, Panel, label

_NOTHING = "The arguments and config files of this program name no setting that is known here."
_EXPLANATION = (
    "Read from the arguments and config files, and not changed by Torchdeck. The plan is on the other tabs."
)


class ProgramView(PreviewTab):
    """Program tab: contradictions first, then a row per setting."""

    title = "Program"
    icon = "file"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.settings = SettingTable()
        self.contradictions = QVBoxLayout()
        self.contradictions.setSpacing(GRID)
        self._warnings = Panel("Contradictions")
        held = QWidget()
        held.setLayout(self.contradictions)
        self.contradictions.setContentsMargins(0, 0, 0, 0)
        self._warnings.add(held)
        panel = Panel(HEADING)
        panel.add(self.settings)
        panel.add(label(_EXPLANATION, Type.SMALL, "secondary", wrap=True))
        column = Column()
        column.add(self._warnings)
        column.add(panel)
        self.add_content(column)

    def missing(self, preview: Preview) -> str:
        """Return why there are no settings."""
        return "" if preview.program is not None else _NOTHING

    def fill(self, preview: Preview) -> None:
        """Show the settings and contradictions."""
        if preview.program is None:
            return
        self.settings.show_rows(preview.program.rows)
        self._show_contradictions(preview.program)

    def _show_contradictions(self, program: ProgramPreview) -> None:
        while (item := self.contradictions.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for each in program.contradictions:
            text = wrapped_label(role="warning")
            text.setText(f"⚠ {sentence(each.what)} {sentence(each.fix)}")
            self.contradictions.addWidget(text)
        self._warnings.setVisible(bool(program.contradictions))


class SettingTable(QWidget):
    """Table with the name, value and source of each setting; unknown values are dimmed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * GRID)
        self._grid.setVerticalSpacing(GRID // 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnStretch(2, 1)
        self._rows: list[tuple[QLabel, QLabel, QLabel]] = []

    def show_rows(self, rows: tuple[ProgramRow, ...]) -> None:
        """Show `rows`; labels are reused, so that an edit does not flicker."""
        while len(self._rows) < len(rows):
            self._rows.append(self._added(len(self._rows)))
        for labels, row in zip(self._rows, rows, strict=False):
            name, value, source = labels
            name.setText(row.name)
            value.setText(row.value or UNKNOWN)
            value.setEnabled(bool(row.value))
            value.setAccessibleName(f"{row.name}: {row.value or UNKNOWN}. {row.source}")
            source.setText(row.source.replace(", --", ",\n--"))  # no line may break after the dashes
            source.setVisible(bool(row.source))
        for at, labels in enumerate(self._rows):
            for each in labels[:2]:
                each.setVisible(at < len(rows))
            labels[2].setVisible(at < len(rows) and bool(rows[at].source))

    def _added(self, line: int) -> tuple[QLabel, QLabel, QLabel]:
        name, value = label("", role="secondary"), wrapped_label()
        source = wrapped_label(Type.SMALL, "secondary")
        self._grid.addWidget(name, line, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(value, line, 1, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(source, line, 2, Qt.AlignmentFlag.AlignTop)
        return name, value, source
