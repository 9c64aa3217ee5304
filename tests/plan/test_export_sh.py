"""A plan as a shell script; the scripts really run."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.values.machines import byte_gpt, config, node, plan
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.plan.export.sbatch_script import export_sbatch
from torchdeck.plan.export.shell_script import export_sh

pytestmark = pytest.mark.processes

NASTY = [
    "two words",
    "it's",
    'say "so"',
    "$(touch pwned) `touch pwned` $HOME ${PATH}",
    "first\nsecond\n",
    "back\\slash \\n",
    "*",
    "",
    "-x",
    "--",
    "@{port} @@{run_dir}",
    "é😀\t|&;<>!#",
    "trailing\\",
    sys.executable,
]

SHOW = """
import json, os, sys
from pathlib import Path
if os.environ["RANK"] == "0":
    names = [name for name in os.environ if name.startswith(("TORCHDECK_", "MASTER_", "MY_", "PET_"))]
    keep = {name: os.environ[name] for name in [*names, "WORLD_SIZE"]}
    keep["PYTHONPATH"] = os.environ.get("PYTHONPATH")
    keep["cwd"] = os.getcwd()
    Path(sys.argv[1]).write_text(json.dumps([sys.argv[2:], keep]))
"""


def own_interpreter() -> InterpreterFacts:
    facts = probe_interpreter()
    if facts.torch is None:
        pytest.skip("there is no torch here")
    return facts


def executed(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = folder / "node.sh"
    path.write_text(script)
    return subprocess.run(
        ["/bin/sh", str(path)],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_torchrun(made: LaunchPlan) -> str:
    """The script with its last command shown instead of executed: one JSON list of words."""
    show = f"{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"
    return export_sh(made, made.nodes[0]).replace('exec "$PYTHON"', f'exec {show} "$PYTHON"')


def test_arguments_arrive_byte_for_byte(tmp_path: Path) -> None:
    """Run by torchrun through the script, a rank sees exactly the arguments and variables of the config."""
    folder = tmp_path / "a 'nasty' $(folder)"
    folder.mkdir()
    (folder / "show it.py").write_text(SHOW)
    out = tmp_path / "out.json"
    asked = config_from_dict(
        {
            "run": {
                "script": "show it.py",
                "args": [str(out), *NASTY],
                "env": {"MY_VALUE": "a\n'b' \"c\" $(d) @{run_id}\\", "PYTHONPATH": "/one two:/three"},
            },
        },
        folder,
    )
    made = plan(asked, node(cores=1), interpreter=own_interpreter())
    done = executed(export_sh(made, made.nodes[0]), tmp_path, RUN_DIR="runs/here", PET_NNODES="9")
    assert done.returncode == 0, done.stderr
    arguments, env = json.loads(out.read_text())
    assert arguments == NASTY
    assert env["MY_VALUE"] == asked.run.env["MY_VALUE"]
    assert env["PYTHONPATH"] == "/one two:/three"
    assert env["TORCHDECK_RUN_DIR"] == str(tmp_path / "runs/here")
    assert env["cwd"] == str(folder)
    assert "PET_NNODES" not in env
    assert env["WORLD_SIZE"] == "1"
    assert (tmp_path / "runs/here/attempts/1/ranks/0").is_dir()
    assert not list(tmp_path.rglob("pwned"))


def test_a_script_for_people_adds_no_callbacks(tmp_path: Path) -> None:
    made = plan(config({"script": "/x.py", "env": {"PYTHONPATH": "/own"}}))
    assert "inside" in made.slots
    of_node = export_sbatch(made).partition("# each node reads its part")[2]
    for text in (export_sh(made, made.nodes[0]), of_node):
        assert "inside" not in text
        assert "PYTHONPATH=/own" in text


def test_the_words_are_the_plans(tmp_path: Path) -> None:
    """Interpreter, flags and command are those of the plan, slots filled, our rank shim left out."""
    made = plan(config({"script": str(tmp_path / "x.py"), "args": NASTY, "working_dir": str(tmp_path)}))
    done = executed(without_torchrun(made), tmp_path, RUN_ID="id", RUN_DIR=str(tmp_path / "r"))
    words = json.loads(done.stdout)
    port = words[words.index("--master-port") + 1]
    filled = made.filled(
        {
            "run_id": "id",
            "run_dir": str(tmp_path / "r"),
            "attempt": "1",
            "port": port,
            "resume": "",
            "shipped": "",
            "inside": "",
        }
    )
    torchrun = filled.nodes[0].torchrun
    assert words == [torchrun[0], "-m", "torch.distributed.run", *torchrun[2:], *filled.nodes[0].command]
    assert 1024 <= int(port) <= 65535


def test_variables_take_the_place_of_slots(tmp_path: Path) -> None:
    """A person chooses interpreter, attempt, checkpoint and run folder by variables, spaces and all."""
    made = plan(config({"script": "/x.py", "working_dir": str(tmp_path)}))
    script = without_torchrun(made).replace("exec ", 'printf "%s\\n" "$TORCHDECK_RESUME" >&2; exec ')
    done = executed(script, tmp_path, RUN_DIR="a b", RESUME="c d", ATTEMPT="4", PYTHON=sys.executable)
    words = json.loads(done.stdout)
    assert words[0] == sys.executable
    assert words[words.index("--log-dir") + 1] == f"{tmp_path}/a b/attempts/4/torchrun"
    assert done.stderr == "c d\n"


def test_a_run_folder_that_would_break_json_is_refused(tmp_path: Path) -> None:
    """The folder stands inside the recipe's JSON: quotes and backslashes are refused, and it says so."""
    done = executed(without_torchrun(plan()), tmp_path, RUN_DIR='a"b')
    assert done.returncode == 2
    assert "RUN_DIR may hold no quotes" in done.stderr


def test_a_recipe_needs_an_installed_torchdeck(tmp_path: Path) -> None:
    """The script says what is missing before torchrun is started."""
    made = plan(byte_gpt())
    script = export_sh(made, made.nodes[0]).replace("cd -- /code", f"cd -- {tmp_path}")
    lacking = tmp_path / "python"
    lacking.write_text('#!/bin/sh\ncase "$2" in *torchdeck*) exit 1 ;; esac\necho 29500\n')
    lacking.chmod(0o755)
    done = executed(script, tmp_path, PYTHON=str(lacking))
    assert done.returncode == 3
    assert "pip install 'torchdeck[train]'" in done.stderr


def test_the_recipes_settings_are_json_with_the_run_folder_in_it(tmp_path: Path) -> None:
    """What ranks parse is the plan's JSON with the slot filled."""
    made = plan(byte_gpt())
    script = export_sh(made, made.nodes[0]).replace("cd -- /code", f"cd -- {tmp_path}")
    head = script[: script.index('"$PYTHON" -c \'import torchdeck.distributed')]
    done = executed(head + 'printf %s "$TORCHDECK_RECIPE"\n', tmp_path, RUN_DIR="r", PYTHON=sys.executable)
    assert json.loads(done.stdout)["checkpoint"]["directory"] == f"{tmp_path}/r/checkpoints"


def test_each_node_has_its_own_script() -> None:
    """On several nodes the port is the same by default, and the scripts say that it must be."""
    made = plan(config(distributed={"nodes": ["a", "b"]}), node("a", gpus=2), node("b", gpus=1))
    scripts = [export_sh(made, part) for part in made.nodes]
    assert ["--node-rank 0" in scripts[0], "--node-rank 1" in scripts[1]] == [True, True]
    assert all("PORT=${1:-29500}" in script and "on every node" in script for script in scripts)


def over_ssh(folder: Path, files: tuple[str, ...], **run: object) -> LaunchPlan:
    """A plan for a node over SSH that gets a copy of the code in `folder`."""
    asked = config({"working_dir": str(folder), **run}, distributed={"nodes": ["n1"]})
    there = dataclasses.replace(node("n1", cores=1), remote=True)
    code = CodeTree(dict.fromkeys(files, "ab" * 32), str(folder), 7)
    made = plan(asked, there, code=code)
    assert made.nodes[0].working_dir == "@{code}"
    return made


def bash(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = folder / "n1.sh"
    path.write_text(script)
    return subprocess.run(
        ["bash", str(path)],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stand_in(folder: Path) -> Path:
    """A Python that does not start torchrun, and shows what it was started with."""
    path = folder / "shown"
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{show}' \"$@\"\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("run", "command"),
    [
        ({"script": "train it.py"}, ["-u", "{}/train it.py"]),
        ({"module": "pkg.train"}, ["-u", "-m", "pkg.train"]),
    ],
)
def test_code_that_a_run_copies_to_its_nodes_is_said_by_a_variable(
    tmp_path: Path, run: dict[str, str], command: list[str]
) -> None:
    """Run by bash: in the user's own folder if nothing is said, in CODE otherwise; the head says it."""
    mine, copied = tmp_path / "user's folder", tmp_path / "copied there"
    for folder in (mine, copied):
        folder.mkdir()
    if "script" in run:
        run = {"script": str(mine / run["script"])}
    made = over_ssh(mine, ("train it.py", "pkg/train.py"), **run)
    script = export_sh(made, made.nodes[0])
    head = script[: script.index("set -eu")]
    assert "[CODE=folder]" in head
    assert "same path on every node" in head
    assert str(mine) in head
    for given, place in (({}, mine), ({"CODE": "copied there"}, copied)):
        done = bash(script, tmp_path, PYTHON=str(stand_in(tmp_path)), RUN_DIR="run", **given)
        assert done.returncode == 0, done.stderr
        argv, cwd, _env = json.loads(done.stdout)
        assert argv[-len(command) :] == [word.format(place) for word in command]
        assert cwd == str(place)


@pytest.mark.parametrize("below", ["", "work"])
def test_a_node_with_a_working_directory_of_its_own_has_the_code_there(tmp_path: Path, below: str) -> None:
    """Not in the folder of who made the plan, which is not there: as it lies around the working directory."""
    mine, theirs = Path("/home/u"), tmp_path / "on the node"
    (theirs / below).mkdir(parents=True)
    asked = config(
        {"script": str(mine / "lib/x.py"), "working_dir": str(mine / below)}, distributed={"nodes": ["n1"]}
    )
    there = dataclasses.replace(node("n1", cores=1), remote=True, working_dir=str(theirs / below))
    made = plan(asked, there, code=CodeTree({"lib/x.py": "ab" * 32}, str(mine), 7))
    script = export_sh(made, made.nodes[0])
    assert str(mine) not in script
    assert str(mine) not in export_sbatch(made).partition("# each node reads its part")[2]
    done = bash(script, tmp_path, PYTHON=str(stand_in(tmp_path)), RUN_DIR="run")
    argv, cwd, _env = json.loads(done.stdout)
    assert (argv[-1], cwd) == (str(theirs / "lib/x.py"), str(theirs / below))


def test_a_module_below_the_copied_folder_is_found(tmp_path: Path) -> None:
    """The run starts it from the copy of the working directory, and so does the script."""
    work = tmp_path / "work"
    work.mkdir()
    asked = config({"module": "a", "working_dir": str(work)}, distributed={"nodes": ["n1"]})
    there = dataclasses.replace(node("n1", cores=1), remote=True)
    made = plan(asked, there, code=CodeTree({"work/a.py": "ab" * 32}, str(tmp_path), 7))
    done = bash(export_sh(made, made.nodes[0]), tmp_path, PYTHON=str(stand_in(tmp_path)), RUN_DIR="run")
    assert json.loads(done.stdout)[2]["PYTHONPATH"] == str(work), done.stderr


def test_a_folder_of_code_that_is_not_there_is_said(tmp_path: Path) -> None:
    """Nothing is started without it."""
    made = over_ssh(tmp_path / "gone", ("a.py",), script=str(tmp_path / "gone" / "a.py"))
    done = bash(export_sh(made, made.nodes[0]), tmp_path, PYTHON=str(stand_in(tmp_path)), RUN_DIR="run")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert str(tmp_path / "gone") in done.stderr


def test_comments_of_a_script_hold_nothing_that_acts(tmp_path: Path) -> None:
    """A name cannot end the comment that it stands in, nor act on the terminal that shows the script."""
    planned = over_ssh(tmp_path, ("train.py",), script=str(tmp_path / "train.py"))
    made = dataclasses.replace(planned, name="a\x1b]52;c;aGk=\x07\u2028b")
    head = export_sh(made, made.nodes[0]).split("set -", 1)[0]
    comments = [line for line in head.splitlines() if line.startswith("#")]
    assert "a�]52;c;aGk=��b" in comments[1]
    assert not set("\x1b\x07\u2028") & set("".join(comments))
