"""Runs and the window live apart: it is killed, and it is closed, with and without a question."""

from pathlib import Path

from PySide6.QtGui import QImage

from support.gui.desktop import Desktop, Window
from support.waiting import wait_until
from torchdeck.metrics import RunMetrics
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.view import RunView

LONG = 90.0
"""Seconds for torchrun, which imports torch."""
TRAIN = """\
import time
for step in range(5000):
    print(f"step {step} loss {3 / (step + 1):.4f}", flush=True)
    time.sleep(0.1)
"""


def steps(runs: RunRegistry) -> int:
    """How many steps the run has told of."""
    metrics = RunMetrics(runs.find("latest").root)
    metrics.refresh()
    return len(metrics.series("loss", 0).values)


def goes_on(runs: RunRegistry) -> bool:
    before = steps(runs)
    wait_until(lambda: steps(runs) > before + 3, LONG, "the run to continue by itself")
    (view,) = runs.all()
    return isinstance(view, RunView) and not view.is_over and len(view.attempts) == 1


LOSS_HEIGHT = 200
"""Pixels from the top of the plots within which the loss is, in a window of this size."""


def assert_whole(window: Window, screen: Desktop, picture: Path) -> None:
    """The run is open as it was, and its loss drawn from the first step to the last."""
    window.wait("running", "StateBadge", LONG)

    def is_drawn() -> bool:
        plot = window.wait("Plots of Loss", "PlotSheet")
        screen.screenshot(picture)
        left, top, width, height = plot.rect  # of all plots; the loss is the uppermost
        columns = coloured(picture, (left, top, width, min(height, LOSS_HEIGHT)))
        if not columns:
            return False
        # from the axis on, without a gap; beyond the last step the axis continues to a round number
        spread = columns[-1] - columns[0] + 1
        return (
            columns[0] < 0.15 * plot.rect[2] and spread > 0.5 * plot.rect[2] and len(columns) > 0.98 * spread
        )

    window.wait_until(is_drawn, "the plot to be whole")


def coloured(picture: Path, rect: tuple[int, int, int, int]) -> list[int]:
    """The columns, from one side of a plot to the other, in which there is a curve's colour."""
    image, (left, top, width, height) = QImage(str(picture)), rect
    return [
        x - left
        for x in range(left, left + width)
        if any(image.pixelColor(x, y).hslSaturation() > 100 for y in range(top + 30, top + height - 24))
    ]


def test_the_window_is_killed_and_closed_and_the_run_goes_on(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry, torchdeck_home: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    settings = torchdeck_home / "settings.json"
    with screen.window(tmp_path, "train.py") as window:
        window.wait("2 ranks on")
        window.key("ctrl+Return")
        window.wait("running", "StateBadge", LONG)
        wait_until(lambda: steps(runs) > 10, LONG, "the first steps")
        window.wait("Plots of Loss", "PlotSheet")
        window.kill()
    assert goes_on(runs)
    with screen.window(tmp_path) as window:
        assert_whole(window, screen, pictures / "1-after-kill.png")
        window.key("ctrl+comma")
        window.wait("Confirm before closing", "QCheckBox")
        window.wait_until(lambda: window.look("Colours", "NamedBox")[0].focused, "the dialog to be in use")
        window.key("alt+o")
        wait_until(lambda: settings.exists() and '"ask_on_close": true' in settings.read_text(), 10, "a file")
        screen.screenshot(pictures / "2-settings.png")
        window.key("Escape")
        window.wait_until(lambda: not window.look("Settings", "SettingsDialog"), "the settings to be gone")
        window.key("ctrl+q")
        window.wait("1 run continues.")
        screen.screenshot(pictures / "3-asked.png")
        window.key("Escape")
        window.wait_until(lambda: not window.look("1 run continues."), "the question to be gone")
        window.key("alt+F4")
        window.click("Close window", "QPushButton")
        assert window.process.wait(20) == 0
        assert window.said == ""
    assert goes_on(runs)
    with screen.window(tmp_path) as window:
        assert_whole(window, screen, pictures / "4-after-close.png")
        window.key("ctrl+comma")
        # a dialog is there before the window manager has put it in its place and given it the keyboard
        window.wait_until(lambda: (seen := window.focus()) and seen.type == "NamedBox", "the settings")
        window.click("Confirm before closing while runs are active", "QCheckBox")
        wait_until(lambda: '"ask_on_close": true' not in settings.read_text(), 20, "the file to be changed")
        window.key("Escape")
        window.wait_until(lambda: not window.look("Settings", "SettingsDialog"), "the settings to be gone")
        screen.do("mousemove", "1270", "9", "click", "1")
        assert window.process.wait(20) == 0, "it asks nothing by itself"
        assert window.said == ""
    assert goes_on(runs)
