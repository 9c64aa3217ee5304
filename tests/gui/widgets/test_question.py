"""Questions before something is lost."""

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import Choice, ask


def test_what_destroys_is_seen_to(theme: Theme, qtbot: QtBot) -> None:
    """By its colour beside the others', and it is not what Enter does where the caller says so."""
    window, roles = QWidget(), QMessageBox.ButtonRole
    qtbot.addWidget(window)
    window.show()
    box = ask(
        window,
        "Remove it?",
        "It is gone then.",
        (
            Choice("Remove", roles.DestructiveRole, lambda: None),
            Choice("Cancel", roles.RejectRole, lambda: None),
        ),
        default=1,
    )
    qtbot.waitUntil(box.isVisible)
    colours = {each.text(): each.palette().color(QPalette.ColorRole.ButtonText) for each in box.buttons()}
    assert colours == {"Remove": theme.colour("bad"), "Cancel": theme.colour("text")}
    default = box.defaultButton()
    assert default is not None
    assert default.text() == "Cancel"
    box.reject()
