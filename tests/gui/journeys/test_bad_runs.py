"""Runs that are too much: a thousand of them, numbers that are none, a rank that prints a million lines."""

import math
from pathlib import Path

from support.gui.desktop import Desktop, Window
from support.values.metrics import write_rows
from support.values.run_homes import add_live_run, add_run

LINES = 1_000_000
SESSION = '{"version": 1, "place": "Runs"}'


def open_first(window: Window, screen: Desktop) -> None:
    """Press the uppermost run in the list."""
    row = window.wait_until(lambda: window.look(kind="Row"), "the runs")[0]
    screen.do("mousemove", *map(str, row.centre), "click", "1")
    window.wait("", "StateBadge")


def test_a_thousand_runs(screen: Desktop, tmp_path: Path, pictures: Path, torchdeck_home: Path) -> None:
    for number in range(1000):
        add_run(torchdeck_home, number, name=f"run-{number}")
    (torchdeck_home / "window.json").write_text(SESSION)
    with screen.window(tmp_path) as window:
        open_first(window, screen)
        window.settle()
        window.wait("✓ 1,000", "_Chip", seconds=60)
        window.assert_flowed("reading a thousand runs")
        window.click("Runs", "_RunView")
        window.key("End", "Home", "Next", "Next", "Prior")
        window.key("ctrl+shift+f")
        window.type("run-77")
        window.wait_until(lambda: len(window.look(kind="Row")) == 11, "the runs that fit")
        screen.screenshot(pictures / "filtered.png")
        window.key("Escape")
        window.wait_until(lambda: len(window.look(kind="Row")) > 11, "all runs again")
        window.click("Runs", "QToolButton")
        window.key("ctrl+k")
        window.type("run-500")
        window.wait_until(lambda: [seen for seen in window.look(kind="Row") if "run-500" in seen.text], "it")
        screen.screenshot(pictures / "palette.png")
        window.key("Escape")
        window.assert_flowed("a thousand runs", 2)
        assert window.said == ""


def test_numbers_that_are_none_and_a_million_lines(
    screen: Desktop, tmp_path: Path, pictures: Path, torchdeck_home: Path
) -> None:
    layout = add_live_run(torchdeck_home, 1)
    odd = {20: math.nan, 30: math.inf, 40: -math.inf}
    rows = [(step, {"loss": odd.get(step, 3.0 - step / 100), "grad_norm": math.nan}) for step in range(99)]
    write_rows(layout.root, [*rows, (99, {"loss": math.nan, "grad_norm": math.inf})])
    (torchdeck_home / "window.json").write_text(SESSION)
    with screen.window(tmp_path) as window:
        open_first(window, screen)
        window.wait("Plots of Loss", "PlotSheet")
        window.settle()
        window.wait_until(
            lambda: [seen for seen in window.look() if "NaN" in seen.text], "the header to say what it is"
        )
        log = layout.attempt(1).rank(0).stdout
        with log.open("w") as file:
            for begin in range(0, LINES, LINES // 10):
                file.writelines(f"line {number}\n" for number in range(begin, begin + LINES // 10))
        window.wait("1,000,000 lines", "LogArea", 60)
        screen.screenshot(pictures / "odd.png")
        window.assert_flowed("a million lines")
        assert window.said == ""
