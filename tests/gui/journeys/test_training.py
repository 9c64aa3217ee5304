"""From a preset to a trained model: preview, launch, watch, stop, resume; and the window killed."""

from pathlib import Path

import pytest

from support.gui.desktop import Desktop, Window
from support.waiting import wait_for_value, wait_until
from torchdeck.metrics import RunMetrics
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.run_state import RunState
from torchdeck.runs.view import RunView

LONG = 90.0
"""Seconds for what imports torch."""


def newest(runs: RunRegistry) -> RunView | None:
    return next((view for view in reversed(runs.all()) if isinstance(view, RunView)), None)


def losses(runs: RunRegistry) -> list[float]:
    metrics = RunMetrics(runs.find("latest").root)
    metrics.refresh()
    return list(metrics.series("loss", 0).values)


def launch_quickstart(window: Window) -> None:
    """Open the preset, wait until all of its preview is there, and launch it by the keyboard."""
    window.click("Open quickstart")
    window.wait("Memory: ✓ fits", seconds=LONG)
    window.key("ctrl+Return")
    window.wait("running", "StateBadge", LONG)


def test_a_preset_is_previewed_launched_watched_stopped_and_resumed(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry
) -> None:
    with screen.window(tmp_path) as window:
        window.wait("What do you want to run?")
        screen.screenshot(pictures / "1-first-start.png")
        window.click("Open quickstart")
        window.wait("Memory: ✓ fits", seconds=LONG)
        screen.screenshot(pictures / "2-preview.png")
        for tab in ("Data", "Memory", "Parameters", "Commands"):
            window.click(tab, "Tab")
            window.wait(tab, "Tab")
            screen.screenshot(pictures / f"3-{tab}.png")
        window.key("ctrl+Return")
        window.wait("running", "StateBadge", LONG)
        wait_until(lambda: len(losses(runs)) > 12, LONG, "twelve steps")
        found = losses(runs)
        assert sum(found[-5:]) < sum(found[:5]), "the loss falls"
        window.wait("Plots of Loss", "PlotSheet")
        screen.screenshot(pictures / "4-training.png")
        window.click("Stop this run")
        window.wait("stopped", "StateBadge", LONG)
        screen.screenshot(pictures / "5-stopped.png")
        stopped = newest(runs)
        assert stopped is not None
        assert stopped.checkpoint is not None
        try_its_model(screen, window, pictures)
        window.click("Resume this run")
        window.wait("running", "StateBadge", LONG)
        wait_until(lambda: len(losses(runs)) > len(found) + 2, LONG, "further steps")
        screen.screenshot(pictures / "6-resumed.png")
        window.click("Stop now this run")
        window.wait("stopped", "StateBadge", LONG)
        assert window.said == ""
    over = newest(runs)
    assert over is not None
    assert over.state is RunState.CANCELLED
    assert len(over.attempts) == 2


def try_its_model(screen: Desktop, window: Window, pictures: Path) -> None:
    """Write a prompt in the tab, and wait for the answer of the run's newest checkpoint."""
    window.click("Try", "Tab")
    window.click("Prompt", "PromptEdit")
    window.type("def main")
    window.key("ctrl+Return")
    window.wait("200 bytes in ", seconds=LONG)
    screen.screenshot(pictures / "5-tried.png")
    window.click("Media", "Tab")
    window.wait("Nothing but numbers")
    screen.screenshot(pictures / "5-media.png")


@pytest.mark.soak  # test_detached.py kills one too
def test_killing_the_window_changes_nothing_and_everything_is_there_again(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry
) -> None:
    with screen.window(tmp_path) as window:
        launch_quickstart(window)
        wait_until(lambda: len(losses(runs)) > 5, LONG, "the first steps")
        window.kill()
    before = len(losses(runs))
    wait_until(lambda: len(losses(runs)) > before + 5, LONG, "the run to continue by itself")
    with screen.window(tmp_path) as window:
        window.wait("running", "StateBadge", LONG)
        window.wait("Plots of Loss", "PlotSheet", LONG)
        screen.screenshot(pictures / "back.png")
        window.click("Stop now this run")
        window.wait("cancelled", "StateBadge", LONG)
        assert window.said == ""
    view = wait_for_value(lambda: newest(runs), 5, "the run")
    assert len(view.attempts) == 1
