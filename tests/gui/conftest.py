"""What the tests of the window share: no screen unless a test brings one, and what widgets are made with."""

import os
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


@pytest.fixture(autouse=True)
def _widgets_of_the_test_before_are_gone() -> None:
    """A style sheet is laid on every widget there is: without this a room's tests take twice as long."""
    if QApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def theme(qapp: QApplication) -> Iterator[Theme]:
    """The light theme, on the application of the tests."""
    made = Theme(qapp, "light")
    yield made
    made.deleteLater()


@pytest.fixture
def operations(qapp: QApplication) -> Iterator[Operations]:
    made = Operations(qapp)
    yield made
    assert made.close(10_000), "an operation of the test continues"
