"""What a run logged besides numbers, on its page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QBuffer, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import torchdeck
from support.values.run_homes import add_live_run
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.media_format import MediaError
from torchdeck.telemetry.run_log import LogFunction, log_of_this_process
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.media.content_views import decoded
from torchdeck_app.runs.media.media_panel import MediaView
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return add_live_run(tmp_path, 1)


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations, layout: RunLayout) -> Iterator[MediaView]:
    made = MediaView(theme, operations, layout)
    qtbot.addWidget(made)
    made.resize(900, 300)
    made.show()
    yield made
    made.closing()


def logging_of(layout: RunLayout, rank: int = 0) -> LogFunction:
    return log_of_this_process(
        {
            "TORCHDECK_RUN_DIR": str(layout.root),
            "TORCHDECK_RUN_ID": layout.root.name,
            "TORCHDECK_ATTEMPT": "1",
            "RANK": str(rank),
        }
    )


def choose(view: MediaView, name: str) -> None:
    (item,) = view.names.findItems(name, Qt.MatchFlag.MatchExactly)
    view.names.setCurrentItem(item)


def test_a_run_that_logs_numbers_alone_says_how(qtbot: QtBot, view: MediaView, layout: RunLayout) -> None:
    """Until the first value, which then shows by itself."""
    view.entered()
    assert "torchdeck.Image" in view.empty._sentence.text()
    assert view.empty.isVisible()
    logging_of(layout)({"said": torchdeck.Text("hello")}, step=3)
    qtbot.waitUntil(lambda: view.content.text.toPlainText() == "hello")
    assert not view.empty.isVisible()


def test_each_kind_is_shown(qtbot: QtBot, view: MediaView, layout: RunLayout) -> None:
    """With its caption, and what the pointer and the keys tell of a histogram."""
    image = np.zeros((2, 3, 3), np.uint8)
    image[0, 2] = (255, 0, 10)
    values: dict[str, Any] = {
        "a": torchdeck.Image(image, caption="a picture"),
        "b": torchdeck.Histogram([0.0, 1.0, 1.0, 2.0], bins=2),
        "c": torchdeck.Table(["name", "loss"], [["x", 0.25], [None, True]]),
        "d": torchdeck.Text("text"),
    }
    logging_of(layout)(values, step=1_000)
    view.entered()
    qtbot.waitUntil(lambda: not view.content.image.image.isNull())
    shown = view.content.image.image
    assert (shown.width(), shown.height()) == (3, 2)
    assert shown.pixelColor(2, 0).name() == "#ff000a"
    assert (view.caption.text(), view.step.text()) == ("a picture", "Step 1,000 of 1,000")
    choose(view, "b")
    histogram = view.content.histogram
    qtbot.waitUntil(lambda: histogram.body.counts == (1, 3))
    assert not view.caption.isVisible()
    QTest.keyClick(histogram, Qt.Key.Key_End)
    assert histogram.accessibleDescription() == "1.0000 to 2.0000: 3 values"
    assert histogram.mark_at(QPointF(20, 20)) == 0
    choose(view, "c")
    table = view.content.table
    qtbot.waitUntil(lambda: table.rowCount() == 2)
    cells = [[str(table.model().index(row, at).data()) for at in range(2)] for row in range(2)]
    assert cells == [["x", "0.25"], ["", "True"]]
    choose(view, "d")
    qtbot.waitUntil(lambda: view.content.currentWidget() is view.content.text)


def test_the_newest_step_is_followed_unless_another_is_chosen(
    qtbot: QtBot, view: MediaView, layout: RunLayout
) -> None:
    log, text = logging_of(layout), view.content.text
    for step in (1, 2):
        log({"said": torchdeck.Text(f"text {step}")}, step=step)
    view.entered()
    qtbot.waitUntil(lambda: text.toPlainText() == "text 2")
    log({"said": torchdeck.Text("text 3")}, step=3)
    qtbot.waitUntil(lambda: text.toPlainText() == "text 3")
    view.slider.setValue(0)
    qtbot.waitUntil(lambda: text.toPlainText() == "text 1")
    log({"said": torchdeck.Text("text 4")}, step=4)
    qtbot.waitUntil(lambda: view.slider.maximum() == 3)
    assert view.step.text() == "Step 1 of 3"
    view.slider.setValue(3)
    qtbot.waitUntil(lambda: view.step.text() == "Step 4 of 4")


def test_ranks_are_chosen_if_there_are_several(qtbot: QtBot, view: MediaView, layout: RunLayout) -> None:
    for rank in (0, 1):
        logging_of(layout, rank)({"said": torchdeck.Text(f"rank {rank}")}, step=1)
    logging_of(layout)({"alone": torchdeck.Text("one")}, step=1)
    view.entered()
    qtbot.waitUntil(lambda: view.content.text.toPlainText() == "one")
    assert not view.rank.isVisible()
    choose(view, "said")
    assert view.rank.isVisible()
    view.rank.setCurrentIndex(1)
    qtbot.waitUntil(lambda: view.content.text.toPlainText() == "rank 1")


def test_a_damaged_value_says_so(qtbot: QtBot, view: MediaView, layout: RunLayout) -> None:
    """Its neighbours are shown; text of a run is never markup, nor does it hide characters."""
    log = logging_of(layout)
    for step in (1, 2):
        log({"said": torchdeck.Text("<b>text</b>\x1b[2J")}, step=step)
    (path,) = layout.attempt(1).rank(0).media.iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    view.entered()
    qtbot.waitUntil(lambda: "said at step 2 is damaged" in view.said.text())
    assert view.content.currentIndex() == 0
    view.slider.setValue(0)
    qtbot.waitUntil(lambda: view.content.text.toPlainText() == "<b>text</b>\ufffd[2J")
    assert view.said.text() == ""


def test_only_a_png_is_decoded() -> None:
    """Whatever it is called: decoders of other formats see nothing of a node's."""
    image = QImage(3, 2, QImage.Format.Format_RGB32)
    image.fill(0)
    for kind in ("PNG", "BMP", "PPM"):
        buffer = QBuffer()
        buffer.open(QBuffer.OpenModeFlag.WriteOnly)
        image.save(buffer, kind)  # type: ignore[call-overload]  # its types want bytes
        content = bytes(buffer.data().data())
        if kind == "PNG":
            assert decoded(content) == image
        else:
            with pytest.raises(MediaError, match="cannot be decoded"):
                decoded(content)
