"""The line that starts a node's Python, run by real shells."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.start_line import python_line

pytestmark = pytest.mark.processes

TELL = (
    "import json, os, sys\n"
    "print(json.dumps([sys.argv[1:], sys.stdin.read(), sys.executable, dict(os.environ)]))"
)
NASTY = [
    "",
    " ",
    "a b",
    "'",
    '"',
    "$(id)",
    "`id`",
    "$HOME",
    "~",
    "a\nb",
    "\\",
    "*",
    "-c",
    "ünï",
    "a;b&c|d>e",
    "!x",
]


def told(
    entry: NodeEntry, arguments: list[str], shell: str = "/bin/sh", given: str = "", **variables: str
) -> list[object]:
    done = subprocess.run(
        [shell, "-c", python_line(entry, ["-c", TELL, *arguments])],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere", **variables},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, list)
    return answer


def python() -> NodeEntry:
    return NodeEntry(address="x", python=sys.executable)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_arguments_and_input_arrive_byte_for_byte(shell: str) -> None:
    arguments, got, _, _ = told(python(), NASTY, shell, "in\nput")
    assert (arguments, got) == (NASTY, "in\nput")


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10), max_size=4
    )
)
def test_any_arguments_arrive(arguments: list[str]) -> None:
    assert told(python(), arguments)[0] == arguments


def test_a_name_is_looked_up_on_the_path_and_a_tilde_is_the_home_there(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's bin"
    folder.mkdir()
    (folder / "my python").symlink_to(sys.executable)
    path = f"{folder}:{os.environ['PATH']}"
    assert told(NodeEntry(address="x", python="my python"), [], PATH=path)[2] == f"{folder}/my python"
    home = NodeEntry(address="x", python="~/a folder's bin/my python")
    assert told(home, [], HOME=str(tmp_path))[2] == f"{folder}/my python"
    assert str(told(NodeEntry(address="x"), [])[2]).endswith("python3")


def test_a_virtual_environment_is_the_one_that_its_python_and_its_tools_are_of(tmp_path: Path) -> None:
    venv = tmp_path / "v env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
    _, _, executable, variables = told(NodeEntry(address="x", venv="~/v env"), [], HOME=str(tmp_path))
    assert executable == str(venv / "bin" / "python")
    assert isinstance(variables, dict)
    assert variables["VIRTUAL_ENV"] == str(venv)
    assert variables["PATH"].startswith(f"{venv}/bin:")


def test_an_activation_script_is_sourced_and_neither_prints_into_the_output_nor_reads_the_input(
    tmp_path: Path,
) -> None:
    script = tmp_path / "set up.sh"
    script.write_text(
        f"echo welcome; cat; export FROM_SCRIPT=yes; PATH={Path(sys.executable).parent}:$PATH\n"
    )
    entry = NodeEntry(address="x", activate=str(script))
    arguments, got, executable, variables = told(entry, ["a b"], given="mine")
    assert (arguments, got) == (["a b"], "mine")
    assert Path(str(executable)).parent == Path(sys.executable).parent
    assert isinstance(variables, dict)
    assert variables["FROM_SCRIPT"] == "yes"


def test_a_script_that_fails_starts_nothing() -> None:
    line = python_line(NodeEntry(address="x", activate="/no/such/script"), ["-c", "print('ran')"])
    done = subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "/no/such/script" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("environment", ["torch", "{root}/envs/torch"])
def test_a_conda_environment_is_activated_by_condas_own_script(tmp_path: Path, environment: str) -> None:
    """The script is a stub with conda's interface: what it is given is noted, and its Python is ours."""
    root = tmp_path / "miniforge3"
    script = root / "etc" / "profile.d" / "conda.sh"
    script.parent.mkdir(parents=True)
    (root / "envs" / "torch").mkdir(parents=True)
    binaries = Path(sys.executable).parent
    script.write_text(f'conda() {{ echo noise; export ACTIVATED="$*"; PATH={binaries}:$PATH; }}\n')
    named = environment.format(root=root)
    answer = told(NodeEntry(address="x", conda=named), ["x y"], HOME=str(tmp_path), given="mine")
    assert answer[:2] == [["x y"], "mine"]
    assert isinstance(answer[3], dict)
    assert answer[3]["ACTIVATED"] == f"activate {named}"


def test_where_there_is_no_conda_it_is_said(tmp_path: Path) -> None:
    line = python_line(NodeEntry(address="x", conda="torch"), ["-c", "print('ran')"])
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (127, "")
    assert "no conda was found on this node" in done.stderr
