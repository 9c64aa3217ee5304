"""`torchdeck` where no window can be opened: one sentence, never Qt's abort."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = [sys.executable, "-m", "torchdeck.cli.main"]


def started(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment}
    return subprocess.run(
        [*MAIN, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_a_display_it_offers_the_command_line(tmp_path: Path) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text("")
    done = started(str(run_file), TORCHDECK_HOME=str(tmp_path / "home"))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "neither DISPLAY nor WAYLAND_DISPLAY is set" in done.stderr
    assert f"torchdeck --no-gui {run_file}" in done.stderr
    assert done.stdout == ""


def test_a_display_that_does_not_answer_is_said(tmp_path: Path) -> None:
    done = started(DISPLAY=":4711", TORCHDECK_HOME=str(tmp_path / "home"))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "the display :4711 cannot be opened" in done.stderr
    assert "ssh -X" in done.stderr


def test_a_script_is_offered_as_one(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    done = started(str(script), TORCHDECK_HOME=str(tmp_path / "home"))
    assert f"torchdeck --no-gui --script {script} --nproc 1" in done.stderr


@pytest.mark.parametrize(
    ("stand_in", "said"),
    [
        (
            "raise ModuleNotFoundError(\"No module named 'PySide6'\", name='PySide6')",
            "pip install 'torchdeck[gui]'",
        ),
        ("raise ImportError('libEGL.so.1: cannot open shared object file')", "libEGL.so.1: cannot open"),
    ],
    ids=["PySide6 is not installed", "a library is missing"],
)
def test_without_qt_it_says_what_to_install(stand_in: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "PySide6").mkdir()
    (tmp_path / "PySide6" / "__init__.py").write_text(stand_in)
    done = started(
        PYTHONPATH=str(tmp_path), QT_QPA_PLATFORM="offscreen", TORCHDECK_HOME=str(tmp_path / "home")
    )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_home_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    done = started(QT_QPA_PLATFORM="offscreen", TORCHDECK_HOME=str(home))
    assert done.returncode == 2
    assert "is not a folder" in done.stderr
    assert done.stderr.count("\n") == 1


def test_before_the_first_paint_nothing_heavy_is_imported(tmp_path: Path) -> None:
    worker = Path(__file__).parents[2] / "benchmarks" / "workers" / "window_start_worker.py"
    env = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "TORCHDECK_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, str(worker), "first"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '"imported": []' in done.stdout
