"""A run from its preset to the trash and back, by keys alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gui.desktop import Desktop, Seen, Window
from support.gui.focus_keys import tab_to
from support.values.metrics import write_rows
from support.values.run_homes import add_run
from support.waiting import wait_until
from torchdeck.metrics import RunMetrics
from torchdeck.runs.registry import RunRegistry

LONG = 90.0
"""Seconds for what imports torch."""


def steps_of(runs: RunRegistry) -> int:
    metrics = RunMetrics(runs.find("latest").root)
    metrics.refresh()
    return len(metrics.series("loss", 0).values)


def memory(window: Window) -> str:
    """What the strip above the preview says of it."""
    return next((seen.name for seen in window.look("Memory: ✓ fits")), "")


def entries(window: Window) -> list[Seen]:
    return window.look(kind="Entry")


@pytest.mark.soak  # a normal run walks every sight by keys, in tests/gui/accessibility, and test_keyboard.py
def test_a_run_is_launched_watched_compared_deleted_and_restored_by_keys(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry, torchdeck_home: Path
) -> None:
    write_rows(add_run(torchdeck_home, 1).root, [(step, {"loss": 3.0 - step / 100}) for step in range(100)])
    with screen.window(tmp_path) as window:
        window.wait("What do you want to run?")
        preset_is_changed_and_launched(window)
        screen.screenshot(pictures / "1-running.png")
        wait_until(lambda: steps_of(runs) > 3, LONG, "the first steps")
        run_is_watched(window)
        screen.screenshot(pictures / "2-crosshair.png")
        tab_to(window, "Stop this run")
        window.key("space")
        window.wait("stopped", "StateBadge", LONG)
        divider_is_moved(window)
        runs_are_compared(window)
        screen.screenshot(pictures / "3-compared.png")
        run_is_deleted_and_restored(window, runs)
        assert window.said == ""


def preset_is_changed_and_launched(window: Window) -> None:
    tab_to(window, "Open quickstart")
    window.key("space")
    before = window.wait_until(lambda: memory(window), "the preview", LONG)
    window.key("ctrl+f")
    window.wait_until(lambda: (at := window.focus()) and at.name == "search settings", "the search")
    window.type("training.microbatch")
    window.key("Return")
    window.wait_until(lambda: (at := window.focus()) and at.name == "training.microbatch", "the field")
    window.key("ctrl+a")
    window.type("2")
    window.key("Return")
    window.wait_until(lambda: memory(window) not in ("", before), "the preview of the change", LONG)
    window.key("ctrl+Return")
    window.wait("running", "StateBadge", LONG)


def run_is_watched(window: Window) -> None:
    """The crosshair says its values, and the menu of the plot opens by both of its keys."""
    window.wait("Plots of Loss", "PlotSheet", LONG)
    tab_to(window, "Plot of Loss")
    window.key("ctrl+Left", "ctrl+Left")
    window.wait_until(lambda: (at := window.focus()) and at.text.startswith("step "), "the values at a step")
    for keys in ("Menu", "shift+F10"):
        window.key(keys)
        offered = window.wait_until(lambda: entries(window), f"the menu of the plot by {keys}")
        assert "Plot" in [entry.text for entry in offered]
        window.key("Escape")
        window.wait_until(lambda: not entries(window), "the menu to close")


def divider_is_moved(window: Window) -> None:
    before = tab_to(window, "Width of the list of runs")
    window.key("Right", "Right")
    window.wait_until(
        lambda: (at := window.focus()) and at.rect[0] > before.rect[0] + 16, "the divider to follow the keys"
    )


def runs_are_compared(window: Window) -> None:
    window.key("ctrl+shift+f")
    window.wait_until(lambda: (at := window.focus()) and at.name == "Filter runs", "the filter")
    window.key("Return")
    window.wait_until(lambda: (at := window.focus()) and at.name == "Runs", "the list")
    window.key("Home", "shift+Down")
    window.wait("Compared runs: ", "RunNames", LONG)


def run_is_deleted_and_restored(window: Window, runs: RunRegistry) -> None:
    window.key("Home", "Delete")
    window.wait("Delete", "QPushButton")
    window.key("Return")
    wait_until(lambda: len(runs.all()) == 1, LONG, "the run to be deleted")
    window.key("ctrl+k")
    window.wait("Search actions and runs", "QLineEdit")
    window.type("deleted runs")
    window.key("Return")
    window.wait("1 run, ", "PlainLabel")
    tab_to(window, "Deleted runs")
    window.key("ctrl+a")
    tab_to(window, "Restore")
    window.key("space")
    wait_until(lambda: len(runs.all()) == 2, LONG, "the run to be restored")
    window.key("Escape")
