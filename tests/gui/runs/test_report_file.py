"""Reports of the selected runs as files."""

from pathlib import Path

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.values.metrics import write_rows
from support.values.run_homes import add_run, run_id
from torchdeck_app.runs.listing.report_file import report_dialog, write_pdf


def test_a_report_is_written_as_html_and_pdf(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1)
    write_rows(layout.root, [(step, {"loss": 3.0 - step}) for step in range(3)])
    place = opened(tmp_path)
    qtbot.waitUntil(lambda: place.table.select(run_id(1)))
    rows = place.table.selected_rows()
    for suffix, begin in (("html", b"<!doctype html>"), ("pdf", b"%PDF-")):
        target = tmp_path / f"report.{suffix}"
        with qtbot.waitSignal(place.reports.written):
            place.reports.write(rows, target, show=False)
        assert target.read_bytes().startswith(begin)
    with qtbot.waitSignal(place.reports.failed):
        place.reports.write(rows, tmp_path / "gone" / "report.pdf", show=False)
    assert "not written" in place.table.problem.text()


@pytest.mark.usefixtures("qapp")
def test_a_pdf_that_is_not_made_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.pdf"
    write_pdf("<p>old</p>", target)
    old = target.read_bytes()
    monkeypatch.setattr(QTextDocument, "print_", lambda *_: None)
    with pytest.raises(OSError, match="complete PDF"):
        write_pdf("<p>new</p>", target)
    assert target.read_bytes() == old
    assert list(tmp_path.iterdir()) == [target]


def test_the_dialog_offers_html_and_pdf(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    dialog = report_dialog(window, "quickstart")
    dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
    assert dialog.nameFilters() == ["HTML (*.html)", "PDF (*.pdf)"]
    for name in reversed(dialog.nameFilters()):
        dialog.filterSelected.emit(name)
        assert f"(*.{dialog.defaultSuffix()})" in name
