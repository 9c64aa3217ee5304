"""A script that failed is resumed with arguments, and cloned, in the window."""

from pathlib import Path

import pytest

from support.gui.desktop import Desktop
from torchdeck.runs.registry import RunRegistry

LONG = 90.0
"""Seconds for torchrun, which imports torch."""
COUNTS = """\
import os, sys, zipfile
begun = sys.argv[1:]
if not begun:
    with zipfile.ZipFile("ckpt.pt", "w") as archive:
        archive.writestr("weights", bytes(20000))
    raise RuntimeError("a failure")
print("continued from", os.path.basename(begun[1]), flush=True)
"""


def test_the_arguments_of_a_resume_are_asked_once_and_kept(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry
) -> None:
    """By Resume, as nothing is known of the script; Clone opens its configuration in Launch."""
    (tmp_path / "train.py").write_text(COUNTS)
    run_file = tmp_path / "run.toml"
    run_file.write_text('[run]\nscript = "train.py"\n[distributed]\nnproc = 1\n')
    with screen.window(tmp_path, "run.toml") as window:
        window.wait("1 rank on")
        window.key("ctrl+Return")
        window.wait("failed", "StateBadge", LONG)
        window.click("Resume this run", "QPushButton")
        window.wait("How does train.py continue from its checkpoint?")
        screen.screenshot(pictures / "asked.png")
        window.type("--from @{checkpoint}")
        window.key("Return")
        window.wait("succeeded", "StateBadge", LONG)
        assert run_file.read_text().endswith(
            'resume_args = ["--from", "@{checkpoint}"]\n[distributed]\nnproc = 1\n'
        )
        (view,) = runs.all()
        out = runs.find(view.id).attempt(2).rank(0).stdout.read_text()
        assert out == "continued from ckpt.pt\n"
        window.click("Clone this run", "QPushButton")
        window.wait("1 rank on")
        screen.screenshot(pictures / "cloned.png")
        assert window.said == ""


@pytest.mark.soak  # the dialog is the same as above
def test_a_script_that_resumes_by_itself_can_be_given_other_arguments(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry
) -> None:
    """By the run's menu; they are for this time, if the box is cleared."""
    (tmp_path / "train.py").write_text(COUNTS)
    run_file = tmp_path / "run.toml"
    text = '[run]\nscript = "train.py"\nresume_args = ["--lost"]\n[distributed]\nnproc = 1\n'
    run_file.write_text(text)
    with screen.window(tmp_path, "run.toml") as window:
        window.wait("1 rank on")
        window.key("ctrl+Return")
        window.wait("failed", "StateBadge", LONG)
        window.key("ctrl+alt+r")
        window.wait("Enter the arguments to add to its own.")
        window.type("--from @{checkpoint}")
        window.click("Keep them in the run file", "QCheckBox", whole=False)
        screen.screenshot(pictures / "asked.png")
        window.key("Return")
        window.wait("succeeded", "StateBadge", LONG)
        (view,) = runs.all()
        assert "ckpt.pt" in runs.find(view.id).attempt(2).rank(0).stdout.read_text()
        assert run_file.read_text() == text
        assert window.said == ""
