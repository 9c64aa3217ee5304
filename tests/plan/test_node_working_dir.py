"""Where ranks start on a node that is reached over SSH."""

from dataclasses import replace
from typing import Any

import pytest

from support.values.machines import config, node, plan
from torchdeck.contract.plan.launch_plan import CodeTree

CODE = CodeTree({"train.py": "ab" * 32}, "/home/u", 7)


@pytest.mark.parametrize(
    ("run", "entry", "folder"),
    [
        ({"script": "/home/u/train.py"}, "", "@{code}"),
        ({"script": "/home/u/train.py"}, "/data", "/data"),
        ({"script": "/home/u/train.py", "sync": "none"}, "", "/home/u"),
        ({"script": "/home/u/train.py", "sync": "none"}, "/data", "/data"),
        ({"recipe": "byte-gpt"}, "", "@{run_dir}"),
    ],
)
def test_ranks_start_where_the_code_is(run: dict[str, Any], entry: str, folder: str) -> None:
    """In the run's copy; where the code lies when it is shared; in the run's folder when there is none."""
    tables = {"training": {"steps": 1}} if "recipe" in run else {}
    asked = config({"working_dir": "/home/u", **run}, distributed={"nodes": ["a"]}, **tables)
    copied = run.get("sync") != "none" and "recipe" not in run
    made = plan(asked, replace(node("a"), remote=True, working_dir=entry), code=CODE if copied else None)
    assert made.nodes[0].working_dir == folder
