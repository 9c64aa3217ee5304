"""Folders that fail: a drive that is slow, a disk that is full, a run that is removed."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from support.gui.desktop import Desktop, Seen, Window
from support.system.slow_drive import SlowDrive
from support.system.small_disk import mounted
from support.values.metrics import write_rows
from support.values.run_homes import add_live_run, add_run


def test_a_home_that_cannot_be_used_is_a_dialog(screen: Desktop, tmp_path: Path, pictures: Path) -> None:
    """A desktop's icon shows no error output."""
    home = tmp_path / "home.txt"
    home.write_text("")
    command = [sys.executable, "-m", "torchdeck.cli.main"]
    environment = {**screen.environment, "TORCHDECK_HOME": str(home)}
    window = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        screen.do(
            "search", "--sync", "--onlyvisible", "--name", "Torchdeck cannot start", "windowfocus", "--sync"
        )
        screen.screenshot(pictures / "refused.png")
        screen.do("key", "Return")
        _, said = window.communicate(timeout=30)
    finally:
        window.kill()
        window.wait(10)
    assert window.returncode == 2
    assert "is not a folder" in said
    assert said.count("\n") == 1


def test_a_slow_drive_is_said_and_holds_nothing_up(
    screen: Desktop, tmp_path: Path, pictures: Path, torchdeck_home: Path
) -> None:
    for number in range(1, 4):
        layout = add_run(torchdeck_home, number)
        write_rows(layout.root, [(step, {"loss": 3.0 - step / 100}) for step in range(100)])
    (torchdeck_home / "window.json").write_text('{"version": 1, "place": "Nodes"}')
    drive = SlowDrive(torchdeck_home, tmp_path, seconds=0.5)
    drive.slow()
    with screen.window(tmp_path, **drive.environment) as window:
        window.click("Runs", "QToolButton")
        window.wait_until(
            lambda: [seen for seen in window.look() if "waiting for the folder of runs" in seen.text],
            "the status bar to say what is waited for",
        )
        window.wait("Reading the runs takes")
        screen.screenshot(pictures / "slow.png")
        window.click("Launch", "QToolButton")
        window.wait("What do you want to run?")
        window.settle()
        for place, shows in (
            ("Nodes", "This machine"),
            ("Launch", "What do you"),
            ("Runs", "Reading the runs"),
        ):
            window.click(place, "QToolButton")
            window.wait(shows)
        window.assert_flowed("a slow drive", 0.5)
        drive.fast()
        window.wait_until(lambda: not window.look("Reading the runs"), "the notice above the runs to be gone")
        row = window.wait_until(lambda: window.look(kind="Row"), "the runs")[0]
        screen.do("mousemove", *map(str, row.centre), "click", "1")
        window.wait("succeeded", "StateBadge")
        window.settle()
        drive.slow()
        window.wait("Reading this run takes")
        screen.screenshot(pictures / "slow-run.png")
        for tab in ("Checkpoints", "Timeline", "Config", "Logs"):
            window.click(tab, "Tab")
        window.assert_flowed("a run on a slow drive", 0.5)
        window.key("ctrl+q")
        assert window.process.wait(30) == 0
        assert window.said == ""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB, where this machine lets us mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(folder, "size=1m,mode=0700"):
        yield folder


def fill(folder: Path) -> Path:
    """Leave no byte of its disk, also of what was freed since; the file that takes it all."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


def test_a_full_disk_is_said_where_something_was_to_be_written(
    screen: Desktop, tmp_path: Path, pictures: Path, small_disk: Path
) -> None:
    (small_disk / "train.py").write_text("print('step 1 loss 2.0')\n")
    run_file = small_disk / "run.toml"
    run_file.write_text('[run]\nscript = "train.py"\n')
    home = small_disk / "home"
    with screen.window(tmp_path, str(run_file), TORCHDECK_HOME=str(home)) as window:
        window.wait("Launch", "QPushButton")
        window.click("Show the run file as TOML")
        fill(small_disk)
        window.settle()
        ballast = fill(small_disk)  # the window may have put a file in another's place meanwhile
        window.click("", "TomlEditor")
        window.key("ctrl+End")
        window.type("# more")
        window.key("ctrl+s")
        window.wait_until(lambda: said(window, "No space left on device"), "why it is not saved")
        screen.screenshot(pictures / "not-saved.png")
        assert run_file.read_text() == '[run]\nscript = "train.py"\n'
        window.key("ctrl+Return")
        window.wait_until(lambda: said(window, "Launch blocked"), "it to be said that it is not launched")
        assert said(window, "space", "disk"), "why"
        screen.screenshot(pictures / "not-launched.png")
        assert not [*home.glob("runs/*/journal.jsonl")]
        ballast.unlink()
        window.click("", "TomlEditor")
        window.key("ctrl+s")
        window.wait_until(lambda: run_file.read_text().endswith("# more"), "it to be saved")
        window.assert_flowed("a full disk")
        assert window.said == ""


def said(window: Window, *words: str) -> list[Seen]:
    """What is in sight and has one of these words in it."""
    return [seen for seen in window.look() if any(word in seen.text for word in words)]


def rows_of(window: Window, state: str) -> list[Seen]:
    """Of runs in that state; one that was removed is in the list for a moment yet."""
    return [seen for seen in window.look(kind="Row") if state in seen.text]


def test_a_run_removed_while_it_is_shown(
    screen: Desktop, tmp_path: Path, pictures: Path, torchdeck_home: Path
) -> None:
    runs = [add_run(torchdeck_home, 1), add_live_run(torchdeck_home, 2)]
    for layout in runs:
        write_rows(layout.root, [(step, {"loss": 3.0 - step / 100}) for step in range(100)])
    (torchdeck_home / "window.json").write_text('{"version": 1, "place": "Runs"}')
    with screen.window(tmp_path) as window:
        for layout, state in reversed([*zip(runs, ("succeeded", "running"), strict=True)]):
            row = window.wait_until(partial(rows_of, window, state), f"the run that is {state}")[0]
            screen.do("mousemove", *map(str, row.centre), "click", "1")
            window.wait(state, "StateBadge")
            window.wait("Plots of Loss", "PlotSheet")
            window.settle()
            shutil.rmtree(layout.root)
            window.wait("This run's directory was removed")
            screen.screenshot(pictures / f"{state}.png")
            for tab in ("Ranks", "Checkpoints", "Timeline", "Config", "Logs"):
                window.click(tab, "Tab")
            window.assert_flowed(f"a run that was {state} and is removed")
        assert window.said == ""
