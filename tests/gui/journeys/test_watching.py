"""A training that was started by hand, in the real window."""

from pathlib import Path

import pytest

from support.cli.command import Command
from support.gui.desktop import Desktop
from support.training.by_hand import PLAIN, by_hand
from torchdeck.runs.follower import read_run

pytestmark = pytest.mark.processes


def test_a_training_is_watched_and_the_watch_ended(
    screen: Desktop, tmp_path: Path, torchdeck_home: Path, pictures: Path
) -> None:
    """The window opens with its page; its button ends the watch, and the training continues."""
    command = Command(torchdeck_home)
    with by_hand(tmp_path / "work", PLAIN, "--max_steps", "100000") as pid:
        started = command.run("watch", "--pid", str(pid), "--detach")
        assert started.returncode == 0, started.stderr
        run_id = started.stdout.strip()
        with screen.window(tmp_path, "--run", run_id) as window:
            window.wait("End watch", "QPushButton", 60)
            window.wait("loss\nvalidation ", seconds=60)
            window.settle()
            screen.screenshot(pictures / "watched.png")
            window.click("End watch", "QPushButton")
            window.wait("the watch was ended; the training was left alone", seconds=60)
            assert window.said == ""
        assert Path(f"/proc/{pid}").exists()
    assert read_run(command.the_run()).state.value == "CANCELLED"
