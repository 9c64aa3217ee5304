"""What is said of a run's copy of the code."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.histories import controller_journal, running_run
from support.values.machines import plan
from support.values.made_runs import make_run
from torchdeck.cli.main import main
from torchdeck.contract.atomic import write_json
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.runs.folders.origin import code_sentence

FILES = {"train.py": "ab" * 32, "lib.py": "cd" * 32}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (CodeTree(FILES, "/home/u/p", 2048), "uses a copy of /home/u/p: 2 files, 2.0 KiB"),
        (
            CodeTree(FILES, "/home/u/p", 7, left_out={".env": "its name"}),
            "uses a copy of /home/u/p: 2 files, 7 B; 1 left out",
        ),
        (
            CodeTree(FILES, uncopied='run.sync is "none"'),
            'no copy of the code was made; files are used in place: run.sync is "none"',
        ),
        (CodeTree(FILES), "no copy of the code was made; files are used in place"),
        (CodeTree(), ""),
    ],
)
def test_show_says_whether_a_run_has_a_copy(
    code: CodeTree, said: str, torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan(code=code)
    assert code_sentence(json.loads(json.dumps(made.document()))) == said
    layout = make_run(torchdeck_home, controller_journal(), running_run())
    write_json(layout.plan, made.document())
    assert main(["runs", "show", layout.root.name]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if "copy of" in line] == ([said] if said else [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.dictionaries(st.sampled_from(["files", "folder", "size", "uncopied", "left_out"]), JSON)


@given(JSON | st.fixed_dictionaries({"code": JSON | PARTS}))
def test_any_plan_gives_a_sentence(value: object) -> None:
    assert isinstance(code_sentence(value), str)
