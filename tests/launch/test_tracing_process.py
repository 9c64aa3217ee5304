"""The process that traces a model: whatever a recipe does in it, there is an answer, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.profiled_recipe import FEW, hanging, is_running, trusted, write_recipe
from support.waiting import wait_until
from torchdeck.config.schema import RunConfig
from torchdeck.launch import tracing_process
from torchdeck.launch.profiling import ProfilingError, profile_model
from torchdeck.launch.shipping import ship


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the recipe is; Torchdeck's home lies elsewhere."""
    return tmp_path / "code"


@pytest.fixture
def config(home: Path, folder: Path) -> RunConfig:
    """A run of a recipe file in a trusted folder."""
    return trusted(folder, home)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os._exit(7)", "ended with exit code 7 while building the model"),
        ("os.abort()", "ended by SIGABRT while building the model"),
        ("ctypes.string_at(0)", "ended by SIGSEGV while building the model"),
        ("raise ValueError('odd')", r"raised ValueError: odd \(model.py, line 9: `raise ValueError"),
        ("sys.exit(4)", r"ends the process \(exit code 4\)"),
        (
            "os.kill(os.getpid(), 9)",
            "was killed while building the model, as the system does when memory runs",
        ),
        ("os.fork() or os._exit(3); raise ValueError('forked')", "raised ValueError: forked"),
        (
            "subprocess.Popen(['sleep', '600']); os._exit(7)",
            "ended with exit code 7 while building the model",
        ),
        ("os.closerange(0, 100)", "the process that traces the model ended with exit code 1"),
        ("input()", "raised EOFError"),
        (
            "bytearray(1 << 60)",
            r"build_model\(options\) of recipe .* needs more memory than may be used here",
        ),
    ],
)
def test_a_recipe_that_ends_the_process(
    line: str, said: str, config: RunConfig, home: Path, folder: Path
) -> None:
    """However it ends there is a sentence, and nothing is kept."""
    write_recipe(folder, line)
    with pytest.raises(ProfilingError, match=said):
        profile_model(config, home, wanted=FEW)
    assert not (home / "profiles").exists()


def test_what_hangs_is_ended_with_all_it_started(config: RunConfig, home: Path, folder: Path) -> None:
    """After the time limit; the sentence says what it was doing."""
    child = folder / "child"
    write_recipe(folder, *hanging(child))
    began = time.monotonic()
    with pytest.raises(ProfilingError, match=r"longer than 12 s while building the model: look for"):
        profile_model(config, home, wanted=FEW, timeout=12)
    assert time.monotonic() - began < 60
    pid = int(child.read_text())
    wait_until(lambda: not is_running(pid), 10, "the end of the recipe's own process")


def test_progress_can_end_it(config: RunConfig, home: Path, folder: Path) -> None:
    """What `on_progress` raises comes through, and the process is gone."""
    child = folder / "child"
    write_recipe(folder, *hanging(child))

    def stop(words: str) -> None:
        if words == "building the model":
            wait_until(child.exists, 30, "the model to be built")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile_model(config, home, wanted=FEW, on_progress=stop)
    wait_until(lambda: child.read_text() != "", 10, "the number of the recipe's own process")
    wait_until(lambda: not is_running(int(child.read_text())), 10, "the end of the recipe's own process")


@pytest.mark.parametrize(
    "line",
    [
        "os.close(0); os.close(2)",
        "os.fork() or os._exit(0)",
        "multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,), daemon=False).start()",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "assert torch.cuda.device_count() == 0 == int(os.environ['LOCAL_RANK'])",
    ],
)
def test_a_recipe_that_does_odd_things_is_traced(
    line: str, config: RunConfig, home: Path, folder: Path
) -> None:
    """What it closes, starts, forks or ignores is no matter."""
    write_recipe(folder, "import multiprocessing, signal", line)
    assert profile_model(config, home, wanted=FEW).train_samples == 6


@pytest.mark.usefixtures("config")
def test_it_ends_with_who_asked(home: Path, folder: Path) -> None:
    """Killed, as by the end of its terminal: the tracing process and what it started are gone too."""
    child = folder / "child"
    write_recipe(folder, f"open({str(child)!r} + '-parent', 'w').write(str(os.getpid()))", *hanging(child))
    asking = (
        "import sys; from pathlib import Path; from torchdeck.config.loader import load_config; "
        "from torchdeck.launch.profiling import profile_model; "
        "profile_model(load_config(Path(sys.argv[1])).config, Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", asking, str(folder / "run.toml"), str(home)]
    with subprocess.Popen(command) as process:
        wait_until(lambda: child.exists() and child.read_text() != "", 60, "the model to be built")
        process.kill()
    for file in (child, Path(f"{child}-parent")):
        pid = int(file.read_text())
        wait_until(lambda pid=pid: not is_running(pid), 10, "the end of what was started")  # type: ignore[misc]


def test_a_home_that_cannot_be_written_is_no_matter(
    config: RunConfig, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code for nodes is put elsewhere for as long as it takes; only the next time takes as long."""
    (home / "shipped").touch()
    (home / "profiles").touch()
    places: list[Path] = []

    def shipping(folder: Path) -> Path:
        places.append(folder)
        return ship(folder)

    monkeypatch.setattr(tracing_process, "ship", shipping)
    assert profile_model(config, home, wanted=FEW).train_samples == 6
    assert places[0] == home
    assert not places[1].exists()
