"""Reports of runs as one HTML page."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.values.metrics import write_rows
from support.values.run_homes import add_failed_run, add_run, run_id
from torchdeck.cli.main import main
from torchdeck.runs.report.chart import Line, chart, ticks
from torchdeck.runs.report.content import ReportError, read_report
from torchdeck.runs.report.page import html_page
from torchdeck.runs.table.reading import read_rows
from torchdeck.use_cases.table.notes import change_notes

NUMBERS = (
    st.floats(-1e12, 1e12)
    | st.floats()
    | st.sampled_from([math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324, 1e-310])
)


@example([[(0.0, -1.7e308), (1.0, 1.7e308)]], "")
@example([[(0.0, 5e-324), (1.0, 1e-310)]], "")
@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8), max_size=4), st.text(max_size=8))
def test_a_chart_is_sound_whatever_is_drawn(lines: list[list[tuple[float, float]]], title: str) -> None:
    """Valid XML without a number that is none, within its frame."""
    text = chart(re.sub("[^ -~]", "", title), [Line("a", points) for points in lines])
    finite = any(math.isfinite(x) and math.isfinite(y) for points in lines for x, y in points)
    assert bool(text) == finite
    if not text:
        return
    root = ET.fromstring(text)  # noqa: S314 - our own text
    for each in root.iter("polyline"):
        for pair in each.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 460
            assert 0 <= y <= 240


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_and_within(low: float, span: float) -> None:
    high = low + span
    if high - low < 1e-9 * max(abs(low), abs(high)):
        return
    found = ticks(low, high)
    assert 1 <= len(found) <= 6
    assert all(low - span * 1e-6 <= value <= high + span * 1e-6 for value in found)


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]


@pytest.fixture
def home(torchdeck_home: Path) -> Path:
    for number, layout in enumerate((add_run(torchdeck_home, 1), add_failed_run(torchdeck_home, 2))):
        layout.config.write_text(f"[training]\nlr = 0.{number + 1}\n# <script>alert(1)</script>\n")
        name = ("loss", "train/loss")[number]
        write_rows(layout.root, [(step, {name: 3.0 / (step + 1), "<i>": 1.0}) for step in range(20)])
    change_notes(
        torchdeck_home, (run_id(2),), lambda note: replace(note, text="<b>mine</b>\nsecond", tags=("bad",))
    )
    return torchdeck_home


def test_several_runs_are_compared(home: Path) -> None:
    report = read_report(read_rows(home)[::-1])
    page = html_page(report)
    found = _Tags(page)
    assert "script" not in found.tags
    assert "b" not in found.tags
    assert not found.links, "the page loads nothing"
    assert "&lt;b&gt;mine&lt;/b&gt;\nsecond" in page
    assert "CUDA out of memory" in page
    (losses, other) = report.plots
    assert (losses.title, len(losses.lines), losses.colours) == ("loss", 2, (0, 1))
    assert losses.lines[0].points[:2] == ((0.0, 3.0), (1.0, 1.5))
    assert other.title == "<i>"
    assert report.differences == (("training.lr", "0.1", "0.2"),)
    assert [run.label for run in report.runs] == ["gpt · lr 0.1", "gpt · lr 0.2"]


def test_no_run_or_too_many_are_refused(home: Path) -> None:
    for rows in ([], read_rows(home) * 26):
        with pytest.raises(ReportError):
            read_report(rows)


def test_the_command_writes_it_and_replaces_nothing(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    words = ["runs", "report", run_id(1), run_id(2), "-o", str(target)]
    assert main(words) == 0
    assert target.read_text().startswith("<!doctype html>")
    assert main(words) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
