"""Reports of the selected runs as files."""

from pathlib import Path

from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.values.metrics import write_rows
from support.values.run_homes import add_run, run_id


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
