"""The whole window with its real places, in this process."""

import sys
from pathlib import Path

from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.settings.user_settings import VERSION, settings_file
from torchdeck_app.window.application import MakeEntries, WindowApplication, page_entries
from torchdeck_app.window.saved_session import VERSION as SESSION_VERSION
from torchdeck_app.window.saved_session import SavedState, session_file


def opened(
    home: Path, qapp: QApplication, qtbot: QtBot, entries: MakeEntries = page_entries
) -> WindowApplication:
    """The window of `home`, all its places made; `close` is to follow."""
    home.mkdir(mode=0o700, exist_ok=True)
    kept = SavedState(
        settings_file(home), session_file(home), settings_version=VERSION, session_version=SESSION_VERSION
    )
    assert kept.wait(10)
    made = WindowApplication(qapp, home, kept, entries)
    hook = sys.excepthook
    with qtbot.waitSignal(made.window.stack.all_made, timeout=30_000):
        made.open(None)
        sys.excepthook = hook  # a test fails where the window would only report
    return made


def close(made: WindowApplication) -> None:
    made.end(0)
    made.close()
    made.window.deleteLater()


def spoken_name(widget: QWidget) -> str:
    """What a screen reader calls it; what is inside a field is the field to it."""
    if widget.objectName().startswith("qt_") or widget.focusProxy() is not None:
        return "a part of another"
    interface: QAccessibleInterface | None = QAccessible.queryAccessibleInterface(widget)
    return "" if interface is None else interface.text(QAccessible.Text.Name)


def path_of(widget: QWidget) -> str:
    """Its class and those around it."""
    names = []
    at: QWidget | None = widget
    while at is not None:
        names.append(f"{type(at).__name__} {at.objectName()}".strip())
        at = at.parentWidget()
    return " < ".join(names[:5])
