"""Fonts: each kind of text has its own."""

from PySide6.QtGui import QFontInfo
from PySide6.QtWidgets import QApplication

from torchdeck_app.theme.fonts import Type, font


def test_sizes_are_those_of_the_kinds(qapp: QApplication) -> None:
    assert [font(kind).pointSize() for kind in Type] == [11, 10, 13, 20, 10]


def test_the_fixed_width_face_is_one(qapp: QApplication) -> None:
    assert QFontInfo(font(Type.MONO)).fixedPitch()
    assert not QFontInfo(font(Type.SMALL)).fixedPitch()
