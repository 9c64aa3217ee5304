"""Where a run finds the user's code."""

import json
from typing import Any

import pytest

from support.values.machines import config, plan
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan
from torchdeck.plan.code_paths import RUNNER, in_copy, where_it_lies
from torchdeck.plan.export.shell_script import export_sh

FILES = ("train.py", "lib/a.py", "work/run.toml", "work/sub/x.py", "od@{d.py", "b\\\\c.py")
CODE = CodeTree(dict.fromkeys(FILES, "ab" * 32), "/home/u/p", 7)
RUN = {
    "run_id": "r",
    "run_dir": "/runs/r",
    "attempt": "1",
    "port": "1",
    "resume": "",
    "shipped": "/s",
    "inside": ":/in",
}


def made(run: dict[str, Any], environ: dict[str, str] | None = None, code: CodeTree = CODE) -> LaunchPlan:
    asked = config(
        {"working_dir": "/home/u/p/work", **run}, **({"training": {"steps": 1}} if "recipe" in run else {})
    )
    return plan(asked, code=code, environ=environ)


def part(*arguments: Any) -> NodePlan:
    return made(*arguments).filled({**RUN, "code": "/runs/r/code"}).nodes[0]


@pytest.mark.parametrize(
    ("script", "executed"),
    [
        ("/home/u/p/train.py", "/runs/r/code/train.py"),
        ("/home/u/p/work/../train.py", "/runs/r/code/train.py"),
        ("/home/u/p/od@{d.py", "/runs/r/code/od@{d.py"),
        ("/home/u/p/b\\c.py", "/runs/r/code/b\\c.py"),
        ("/home/u/p/ignored.py", "/home/u/p/ignored.py"),
        ("/home/u/other.py", "/home/u/other.py"),
    ],
)
def test_a_script_that_is_copied_is_executed_there(script: str, executed: str) -> None:
    there = part({"script": script, "args": ["/home/u/p/train.py"]})
    assert there.command[2:] == (executed, "/home/u/p/train.py")
    assert (there.working_dir, there.env["TORCHDECK_CODE"]) == ("/home/u/p/work", "/runs/r/code/work")


def test_a_module_is_found_in_the_copy_of_the_working_directory() -> None:
    assert part({"module": "a.b", "args": ["x"]}).command[2:] == (
        f"/s/{RUNNER}",
        "/runs/r/code/work",
        "a.b",
        "x",
    )


def test_a_recipe_file_is_named_in_its_settings_alone() -> None:
    there = part({"recipe": "/home/u/p/lib/a.py"})
    assert json.loads(there.env["TORCHDECK_RECIPE"])["recipe"] == "/runs/r/code/lib/a.py"
    assert there.command[2:] == ("-m", "torchdeck.distributed.entry")
    assert made({"recipe": "/home/u/p/lib/a.py"}).target == "/home/u/p/lib/a.py"


def test_the_module_path_leads_into_the_copy_where_that_has_it() -> None:
    path = "/home/u/p:/home/u/p/lib:sub::/home/u/p/none:/opt/x:other"
    there = part({"script": "/home/u/p/train.py"}, {"PYTHONPATH": path})
    copy = "/runs/r/code"
    assert (
        there.env["PYTHONPATH"]
        == f"/s:/in:{copy}:{copy}/lib:{copy}/work/sub:{copy}/work:/home/u/p/none:/opt/x:other"
    )


def test_without_a_copy_nothing_is_another() -> None:
    before = made({"module": "a.b"}, None, CodeTree({"a.py": "ab"}))
    assert before.nodes[0].command[2:] == ("-m", "a.b")
    assert not {"code"} & set(before.slots)
    assert before.to_json()["code"] == {"files": {"a.py": "ab"}}


def test_a_plan_says_what_goes_and_reads_it_again() -> None:
    asked = made({"script": "/home/u/p/train.py"})
    assert "code" in asked.slots
    assert LaunchPlan.from_json(json.loads(json.dumps(asked.document()))) == asked
    other = made(
        {"script": "/home/u/p/train.py"}, None, CodeTree({**CODE.files, "lib/a.py": "cd" * 32}, CODE.folder)
    )
    assert other.fingerprint != asked.fingerprint


@pytest.mark.parametrize(
    "run",
    [{"script": "/home/u/p/od@{d.py"}, {"module": "a.b", "args": ["@{x}"]}, {"recipe": "/home/u/p/lib/a.py"}],
)
def test_scripts_for_people_have_their_own_paths(run: dict[str, Any]) -> None:
    """As if there were no copy: the same plan but for that."""
    environ = {"PYTHONPATH": "/home/u/p/lib"}
    copied, lying = made(run, environ), made(run, environ, CodeTree())
    assert where_it_lies(copied.nodes[0], copied.code) == lying.nodes[0]
    text = export_sh(copied, copied.nodes[0])
    assert text.replace(copied.fingerprint, "").replace(copied.fingerprint[:12], "") == export_sh(
        lying, lying.nodes[0]
    ).replace(lying.fingerprint, "").replace(lying.fingerprint[:12], "")


def test_what_lies_elsewhere_is_no_part_of_the_copy() -> None:
    assert in_copy(CODE, "/home/u/p") == "@{code}"
    assert in_copy(CODE, "/home/u/p/work") == "@{code}/work"
    assert in_copy(CODE, "/home/u/p2/@{x}") == "/home/u/p2/@@{x}"
