"""Fonts: each kind of text has its own."""

from PySide6.QtGui import QFont, QFontInfo, QImage, QPainter
from PySide6.QtWidgets import QApplication

from torchdeck_app.theme.fonts import Type, font


def test_sizes_are_those_of_the_kinds(qapp: QApplication) -> None:
    assert [font(kind).pointSize() for kind in Type] == [11, 10, 13, 20, 10]


def test_the_fixed_width_face_is_one(qapp: QApplication) -> None:
    assert QFontInfo(font(Type.MONO)).fixedPitch()
    assert not QFontInfo(font(Type.SMALL)).fixedPitch()


def drawn(text: str, kind: Type) -> QImage:
    picture = QImage(80, 40, QImage.Format.Format_RGB32)
    picture.fill(0xFFFFFF)
    painter = QPainter(picture)
    painter.setFont(font(kind))
    painter.drawText(4, 28, text)
    painter.end()
    return picture


def test_a_key_is_drawn_as_it_is_written(qapp: QApplication) -> None:
    """Inter has a rule of its own for an x between figures, which a fingerprint may have."""
    for kind in Type:
        assert font(kind).featureValue(QFont.Tag("calt")) == 0
        assert drawn("2x3", kind) == drawn("2\u200bx\u200b3", kind)
