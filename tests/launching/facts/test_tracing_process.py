"""The process that traces a model: whatever a recipe does in it, there is an answer, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.training.profiled_recipe import FEW, RUN, hanging, is_running, trusted, write_recipe
from support.values.run_files import load, write
from support.waiting import wait_until
from torchdeck.config.loader import load_config
from torchdeck.config.schema import RunConfig
from torchdeck.launching.facts import tracing_process
from torchdeck.launching.facts.profiling import ProfilingError, profile_model
from torchdeck.launching.runtime_bundle import ship
from torchdeck.trust.trust_list import TrustList
from torchdeck.use_cases.previewer import Previewer

pytestmark = pytest.mark.processes


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
        pytest.param(
            "os._exit(7)", "ended with exit code 7 while building the model", marks=pytest.mark.soak
        ),
        pytest.param("os.abort()", "ended by SIGABRT while building the model", marks=pytest.mark.soak),
        pytest.param(
            "ctypes.string_at(0)", "ended by SIGSEGV while building the model", marks=pytest.mark.soak
        ),
        ("raise ValueError('odd')", r"raised ValueError: odd \(model.py, line 9: `raise ValueError"),
        pytest.param("sys.exit(4)", r"ends the process \(exit code 4\)", marks=pytest.mark.soak),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            "was killed while building the model, as the system does when memory runs",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "os.fork() or os._exit(3); raise ValueError('forked')",
            "raised ValueError: forked",
            marks=pytest.mark.soak,
        ),
        (
            "subprocess.Popen(['sleep', '600']); os._exit(7)",
            "ended with exit code 7 while building the model",
        ),
        pytest.param(
            "os.closerange(0, 100)",
            "the process that traces the model ended with exit code 1",
            marks=pytest.mark.soak,
        ),
        pytest.param("input()", "raised EOFError", marks=pytest.mark.soak),
        pytest.param(
            "bytearray(1 << 60)",
            r"build_model\(options\) of recipe .* needs more memory than may be used here",
            marks=pytest.mark.soak,
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
    said = ""
    for limit in (12, 90):
        with pytest.raises(ProfilingError, match=f"longer than {limit} s while .*: look for") as caught:
            profile_model(config, home, wanted=FEW, timeout=limit)
        said = str(caught.value)
        if child.exists() and child.read_text():  # a busy machine may take longer to import torch
            break
    assert "while building the model" in said
    pid = int(child.read_text())
    wait_until(lambda: not is_running(pid), 10, "the end of the recipe's own process")


def test_progress_can_end_it(config: RunConfig, home: Path, folder: Path) -> None:
    """What `on_progress` raises comes through, and the process is gone."""
    child = folder / "child"
    write_recipe(folder, *hanging(child))

    def stop(words: str) -> None:
        if words == "building the model":
            # by then it has written down whom it started
            wait_until(lambda: child.exists() and child.read_text(), 30, "the model to be built")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile_model(config, home, wanted=FEW, on_progress=stop)
    wait_until(lambda: not is_running(int(child.read_text())), 10, "the end of the recipe's own process")


ODD = (
    "os.close(0); os.close(2)",
    "os.fork() or os._exit(0)",
    "multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,), daemon=False).start()",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "assert torch.cuda.device_count() == 0 == int(os.environ['LOCAL_RANK'])",
)


@pytest.mark.parametrize("lines", [ODD, *(pytest.param((line,), marks=pytest.mark.soak) for line in ODD)])
def test_a_recipe_that_does_odd_things_is_traced(
    lines: tuple[str, ...], config: RunConfig, home: Path, folder: Path
) -> None:
    """What it closes, starts, forks or ignores is no matter."""
    write_recipe(folder, "import multiprocessing, signal", *lines)
    assert profile_model(config, home, wanted=FEW).train_samples == 6


def test_nothing_of_a_folder_runs_for_a_built_in_recipe(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither modules that lie where ranks start, nor what the run file puts into the environment.

    Not even if the user's own PYTHONPATH has an empty entry, which is the folder that a process starts in.
    """
    folder = tmp_path / "strange"
    mark = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    for name in ("json.py", "numpy.py", "sitecustomize.py", "runpy.py"):
        write(folder, mark, name)
    monkeypatch.setenv("PYTHONPATH", "/nowhere:")
    text = '[run]\nrecipe = "byte-gpt"\n[run.env]\nPYTHONPATH = "."\n[training]\nsteps = 1\n'
    home.mkdir(mode=0o700, exist_ok=True)
    assert profile_model(load(folder, text), home, wanted=FEW).train_samples
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("more", ["", 'working_dir = "CODE"\nenv = {PYTHONPATH = "STRANGE"}'])
def test_nothing_of_a_strange_file_takes_effect_though_its_recipe_is_trusted(
    more: str, config: RunConfig, home: Path, folder: Path, tmp_path: Path
) -> None:
    """Modules that lie beside it, and where its variables point to: planted, they are not run."""
    untrusted = tmp_path / "strange"
    mark = tmp_path / "ran"
    for name in ("json.py", "numpy.py", "sitecustomize.py", "usercustomize.py", "ctypes.py"):
        write(untrusted, f"open({str(mark)!r}, 'w')\n", name)
    more = more.replace("CODE", str(folder)).replace("STRANGE", str(untrusted))
    text = RUN.replace('"model.py"', f'"{config.run.recipe}"\n{more}')
    loaded = load_config(write(untrusted, text))
    previewer = Previewer(home)
    made = previewer.preview(loaded)
    assert made.held is not None
    assert made.held.folder == untrusted
    previewer.trace(loaded, lambda _text: None)
    with pytest.raises(ProfilingError, match=f"{untrusted} is not trusted yet"):
        profile_model(loaded.config, home, wanted=FEW, files=loaded.files)
    assert not mark.exists()
    TrustList(home).add(untrusted)
    with suppress(ProfilingError):  # what was planted is no library
        profile_model(loaded.config, home, wanted=FEW, files=loaded.files)
    assert mark.exists(), "the test plants what would run"


@pytest.mark.usefixtures("config")
def test_it_ends_with_who_asked(home: Path, folder: Path) -> None:
    """Killed, as by the end of its terminal: the tracing process and what it started are gone too."""
    child = folder / "child"
    write_recipe(folder, f"open({str(child)!r} + '-parent', 'w').write(str(os.getpid()))", *hanging(child))
    asking = (
        "import sys; from pathlib import Path; from torchdeck.config.loader import load_config; "
        "from torchdeck.launching.facts.profiling import profile_model; "
        "profile_model(load_config(Path(sys.argv[1])).config, Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", asking, str(folder / "run.toml"), str(home)]
    with subprocess.Popen(command) as process:
        wait_until(lambda: child.exists() and child.read_text() != "", 60, "the model to be built")
        process.kill()
    for file in (child, Path(f"{child}-parent")):
        pid = int(file.read_text())
        wait_until(lambda pid=pid: not is_running(pid), 10, "the end of what was started")  # type: ignore[misc]


@pytest.mark.soak
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
