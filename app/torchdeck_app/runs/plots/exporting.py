"""Asking where a plot or its rows go, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.plots.canvas import PlotCanvas
from torchdeck_app.runs.plots.export import write_csv, write_png, write_svg
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.plain_label import control_text


class Exporting:
    """The export actions of a board."""

    def __init__(self, theme: Theme, window: QWidget, say: Callable[[str, str], None]) -> None:
        """Export for one board.

        Args:
            theme: colours of pictures.
            window: parent of dialogs.
            say: shows a sentence; its second argument is a role, such as `error`.
        """
        self._theme = theme
        self._window = window
        self._say = say
        self._operations = Operations(window)

    def close(self) -> None:
        """Give up what is being written."""
        self._operations.close()

    def add_actions(self, menu: QMenu, canvas: PlotCanvas, layouts: Sequence[RunLayout]) -> None:
        """Add what can be exported of one plot."""
        title = _as_text(canvas.plotted.title)
        for suffix in ("png", "svg"):
            action = menu.addAction(control_text(f"Export “{title}” as {suffix.upper()}…"))
            action.triggered.connect(lambda _=False, suffix=suffix: self._ask(canvas, suffix, layouts[0]))
        for layout in layouts:
            of = f" of {_as_text(layout.root.name)}" if len(layouts) > 1 else ""
            action = menu.addAction(control_text(f"Export rows of “{title}”{of} as CSV…"))
            action.triggered.connect(lambda _=False, layout=layout: self._ask(canvas, "csv", layout))

    def write(self, canvas: PlotCanvas, suffix: str, layout: RunLayout, path: Path) -> None:
        """Write one plot, or its rows, to `path`; what comes of it is said."""
        if suffix == "csv":
            self._operations.run(
                f"writing {path.name}",
                lambda progress, cancel: write_csv(path, layout, canvas.plotted, progress, cancel),
                done=lambda rows: self._say(f"{rows:,} rows written to {path.name}", "secondary"),
                failed=lambda error: self._say(f"{path.name} could not be written: {error}", "error"),
            )
            return
        writer = write_png if suffix == "png" else write_svg
        try:
            writer(path, canvas.frame, canvas.data, canvas.plotted, self._theme.palette)
        except OSError as error:
            self._say(f"{path.name} could not be written: {error}", "error")
        else:
            self._say(f"{path.name} written", "secondary")

    def _ask(self, canvas: PlotCanvas, suffix: str, layout: RunLayout) -> None:
        dialog = QFileDialog(self._window, f"Export {canvas.plotted.title}")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(suffix)
        dialog.setNameFilter(f"{suffix.upper()} (*.{suffix})")
        name = "".join(letter if letter.isalnum() else "-" for letter in canvas.plotted.key)
        dialog.selectFile(f"{name}.{suffix}")
        dialog.fileSelected.connect(lambda path: self.write(canvas, suffix, layout, Path(path)))
        dialog.open()


def _as_text(name: str) -> str:
    """`name` in a menu, where & would underline the letter behind it."""
    return name.replace("&", "&&")
