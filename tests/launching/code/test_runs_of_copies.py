"""Real runs execute their own copy of the code, whatever becomes of the files it was made of."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.cli.command import Command, agent_events, wait_for_event, wait_until_gone
from support.values.machines import plan
from support.waiting import wait_until
from torchdeck.agent.attempt.attempt_plan import prepare_attempt
from torchdeck.agent.attempt.resume_points import AttemptError
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.prepare import cluster_facts, plan_from

HELPER = "VALUE = 'before'\n"
CHANGED = "VALUE = 'after'\n"
SCRIPT = """
import os, pathlib, time, helper
conf = (pathlib.Path(__file__).parent / "conf.txt").read_text()
print("value", helper.VALUE, conf, os.getcwd(), os.environ["TORCHDECK_CODE"], flush=True)
if os.environ["TORCHDECK_ATTEMPT"] == "1":
    pathlib.Path("begun").touch()
    while not pathlib.Path("changed").exists():
        time.sleep(0.05)
    raise SystemExit(3)
"""
CONFIG = """
name = "copies"
[run]
{what}
[distributed]
devices = "cpu"
[launch]
max_restarts = 1
restart_delay = 0
"""


def change(work: Path, *names: str) -> None:
    for name in names:
        (work / name).write_text(CHANGED)
    (work / "changed").touch()


def printed(run: RunLayout, attempt: int) -> list[str]:
    text = run.attempt(attempt).rank(0).stdout.read_text()
    return next(line for line in text.splitlines() if line.startswith("value")).split()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("what", "main"),
    [
        pytest.param('script = "train.py"', "train.py", marks=pytest.mark.soak, id="script"),
        pytest.param('module = "package.train"', "package/train.py", id="module"),
    ],
)
def test_what_is_changed_while_a_run_lives_does_not_reach_its_restart(
    tmp_path: Path, torchdeck_home: Path, what: str, main: str
) -> None:
    """Script, modules it imports, and files beside it; the working directory stays the person's."""
    work = tmp_path / "a folder"
    (work / main).parent.mkdir(parents=True)
    (work / main).write_text(SCRIPT)
    (work / "helper.py").write_text(HELPER)
    (work / main).with_name("conf.txt").write_text("first")
    (work / "run.toml").write_text(CONFIG.format(what=what))
    command = Command(torchdeck_home)
    with command.start("--no-gui", str(work / "run.toml")) as front:
        run = command.the_run()
        wait_until((work / "begun").exists, 60, "the first attempt to begin")
        change(work, main, "helper.py")
        (work / main).with_name("conf.txt").write_text("second")
        wait_for_event(run, "finished")
        front.wait(30)
    (finished,) = agent_events(run, "finished")
    assert finished.fields["state"] == "SUCCEEDED"
    for attempt in (1, 2):
        assert printed(run, attempt) == ["value", "before", "first", *str(work).split(), str(run.code)]
    assert (work / "helper.py").read_text() == CHANGED
    # Python's byte code of it lies in the copy, and the person's folder has none of it
    assert not list(work.rglob("__pycache__"))
    wait_until_gone(run)
    assert command.run("runs", "delete", run.root.name).returncode == 0
    assert not [path for path in (torchdeck_home / "code/blobs").rglob("*") if path.is_file()]


def test_a_run_whose_copy_is_gone_says_so(tmp_path: Path) -> None:
    made = plan(code=CodeTree({"train.py": "ab"}, str(tmp_path)))
    layout = RunLayout(tmp_path / "run")
    with pytest.raises(AttemptError, match="own copy of the code no longer exists"):
        prepare_attempt(layout, made, 2, tmp_path, lambda *_: None)


def test_without_a_copy_the_files_are_executed_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    run = {"script": "train.py", "sync": "none"}
    asked = config_from_dict({"run": run, "distributed": {"devices": "cpu"}}, tmp_path)
    made = plan_from(asked, cluster_facts(asked, {}))
    assert made.nodes[0].command[2:] == (str(tmp_path / "train.py"),)
    assert "code" not in made.slots
    assert (made.code.folder, list(made.code.files)) == ("", ["train.py"])


@pytest.mark.processes
def test_the_runner_of_modules_is_as_python_m(tmp_path: Path) -> None:
    """Module, arguments, package, imports; but from its folder, not from where it is started."""
    program = "import sys, other\nprint(sys.argv[1:], __name__, __package__, other.WHERE, sys.path[0])"
    for folder in ("copy", "here"):
        package = tmp_path / folder / "package"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "train.py").write_text(program)
        (tmp_path / folder / "other.py").write_text(f"WHERE = {folder!r}")
    runner = Path(__file__).parents[3] / "core/torchdeck/agent/processes/run_module.py"
    words = ["package.train", "--a b", "@{x}"]
    done = subprocess.run(
        [sys.executable, str(runner), str(tmp_path / "copy"), *words],
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"['--a b', '@{{x}}'] __main__ package copy {tmp_path / 'copy'}"
