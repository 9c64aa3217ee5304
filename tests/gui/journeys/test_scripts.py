"""A script of one's own, and one that fails."""

from pathlib import Path

import pytest

from support.gui.desktop import Desktop
from torchdeck.runs.registry import RunRegistry

LONG = 90.0
"""Seconds for torchrun, which imports torch."""
GOOD = """\
import os, time
for step in range(60):
    print(f"step {step} loss {3 / (step + 1):.4f}", flush=True)
    time.sleep(0.02)
"""
BAD = """\
import os, time
print("step 0 loss 2.5", flush=True)
if os.environ["RANK"] == "1":
    raise ValueError("the data of rank 1 is damaged")
time.sleep(60)
"""


@pytest.mark.soak  # test_detached.py opens one, too, and looks at its plot
def test_a_script_opens_starts_and_its_printed_loss_is_drawn(
    screen: Desktop, tmp_path: Path, pictures: Path
) -> None:
    script = tmp_path / "train it.py"
    script.write_text(GOOD)
    with screen.window(tmp_path, str(script)) as window:
        window.wait("2 ranks on")
        screen.screenshot(pictures / "opened.png")
        window.key("ctrl+Return")
        window.wait("succeeded", "StateBadge", LONG)
        window.wait("Plots of Loss", "PlotSheet")
        screen.screenshot(pictures / "succeeded.png")
        assert window.said == ""


def test_a_run_that_fails_says_which_rank_why_and_what_to_do(
    screen: Desktop, tmp_path: Path, pictures: Path, runs: RunRegistry
) -> None:
    (tmp_path / "train.py").write_text(BAD)
    (tmp_path / "run.toml").write_text('[run]\nscript = "train.py"\n[distributed]\nnproc = 2\n')
    with screen.window(tmp_path, "run.toml") as window:
        window.wait("2 ranks on")
        window.key("ctrl+Return")
        window.wait("failed", "StateBadge", LONG)
        window.wait_until(
            lambda: [seen for seen in window.look() if "the data of rank 1 is damaged" in seen.text],
            "the traceback",
        )
        assert any("ank 1" in seen.text for seen in window.look())
        screen.screenshot(pictures / "failed.png")
        assert window.said == ""
