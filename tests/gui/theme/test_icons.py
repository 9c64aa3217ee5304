"""Icons: drawn once in their colours, however many show them."""

import pytest
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from torchdeck_app.theme import icons
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.palette import DARK, LIGHT


def test_it_is_drawn_once_in_each_set_of_colours(qapp: QApplication) -> None:
    icon("close", LIGHT)
    drawn = icons._icon.cache_info().misses
    assert icon("close", LIGHT).cacheKey() == icon("close", LIGHT).cacheKey()
    assert icons._icon.cache_info().misses == drawn
    assert icon("close", DARK).cacheKey() != icon("close", LIGHT).cacheKey()


def test_whoever_changes_theirs_changes_no_other(qapp: QApplication) -> None:
    mine = icon("close", LIGHT)
    mine.addPixmap(icons.drawn("close", "#ff0000", 48))
    assert mine.cacheKey() != icon("close", LIGHT).cacheKey()


@pytest.mark.parametrize("ratio", [1, 2])
def test_it_is_dim_where_it_cannot_be_pressed_and_sharp_on_a_dense_screen(
    ratio: int, qapp: QApplication
) -> None:
    made = icon("close", LIGHT)
    size = made.availableSizes()[0]
    lit = made.pixmap(size, ratio, QIcon.Mode.Normal)
    unlit = made.pixmap(size, ratio, QIcon.Mode.Disabled)
    assert lit.width() == unlit.width() == size.width() * ratio
    assert lit.toImage() != unlit.toImage()


def test_one_that_is_not_there_is_an_error(qapp: QApplication) -> None:
    with pytest.raises(FileNotFoundError):
        icon("no such icon", LIGHT)
