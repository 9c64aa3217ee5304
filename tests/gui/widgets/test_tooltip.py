"""Tooltips of untrusted texts."""

from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from torchdeck_app.widgets.labels import plain_tip


def test_every_character_is_shown_as_it_is(qapp: QApplication) -> None:
    text = '<img src="x"> a & b\nsecond <b>line</b>'
    shown = QTextDocument()
    shown.setHtml(plain_tip(text))
    assert shown.toPlainText() == text


def test_no_text_no_tooltip() -> None:
    assert plain_tip("") == ""
