"""Labels and buttons with a stranger's text."""

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from torchdeck_app.widgets.labels import PlainLabel, SteadyLine, control_text
from torchdeck_app.widgets.panel import label
from torchdeck_app.widgets.state_badge import StateBadge
from torchdeck_app.window.run_news import _unmarked

EVIL = "<a href='x'>a\u202eb\x1b]52;c;aGk=\x07</a>"
SAFE = "<a href='x'>a�b�]52;c;aGk=�</a>"


def test_every_kind_of_label_shows_text_as_it_is(qtbot: QtBot) -> None:
    for made in (label(EVIL), PlainLabel(EVIL), SteadyLine(EVIL)):
        qtbot.addWidget(made)
        assert made.text() == SAFE
        assert made.textFormat() is Qt.TextFormat.PlainText
        made.setText(f"{EVIL}{EVIL}")
        assert made.text() == f"{SAFE}{SAFE}"
    assert issubclass(StateBadge, PlainLabel)


def test_an_ampersand_of_a_name_is_no_mnemonic() -> None:
    assert control_text(f"R&D {EVIL}") == f"R&&D {SAFE}"


def test_a_notification_of_the_desktop_holds_no_markup() -> None:
    """Desktops show links and pictures in them (Desktop Notifications Specification, 3.4)."""
    assert _unmarked(EVIL) == SAFE.replace("<", "‹").replace(">", "›")
