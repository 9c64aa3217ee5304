"""All checks together: of a right run, of machines that are only described, without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.config.loader import config_from_dict
from torchdeck.launching.preflight import failures, preflight
from torchdeck.launching.prepare import cluster_facts, plan_from


def test_a_right_run_passes(checked: CheckedConfig) -> None:
    """Nothing stands in the way of the built-in recipe or of a script."""
    for results in (checked.recipe(), checked.script()):
        assert not failures(list(results.values()))
        assert {"working_dir", "interpreter", "torch", "devices", "home", "disk", "host name"} <= set(results)


@pytest.mark.processes
def test_preflight_needs_neither_torch_nor_numpy(tmp_path: Path) -> None:
    """In a fresh process, planning and all checks import none of them: they cost more than all checks."""
    (tmp_path / "run.toml").write_text('[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\n')
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from torchdeck.config.loader import load_config\n"
        "from torchdeck.launching.prepare import plan_from, cluster_facts\n"
        "from torchdeck.launching.preflight import preflight\n"
        "config = load_config('run.toml').config\n"
        "found = cluster_facts(config)\n"
        "preflight(config, plan_from(config, found), found, Path('home'))\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)\n"
    )
    out = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True, timeout=60).split()
    assert out == ["False", "False"]


def test_machines_that_are_only_described_are_not_launched_on(tmp_path: Path) -> None:
    """A plan of them is made; the start is refused, and it is said what can be done with the plan."""
    asked = config_from_dict(
        {
            "run": {"recipe": "byte-gpt"},
            "training": {"steps": 1},
            "cluster": {"nodes": [{"name": "gpu[1-9]", "gpus": 8}]},
        },
        tmp_path,
    )
    found = cluster_facts(asked, {})
    plan = plan_from(asked, found)
    assert plan.world_size == 72
    (check,) = preflight(asked, plan, found, tmp_path / "home")
    assert_refused(check, "gpu1, gpu2, gpu3 and 6 more are only described", "torchdeck plan", "localhost")
    assert not (tmp_path / "home").exists()


def test_this_machine_can_be_surveyed(tmp_path: Path) -> None:
    """The real facts, gathered as launch gathers them, make a plan."""
    (tmp_path / "train.py").write_text("print(1)")
    asked = config_from_dict({"run": {"script": "train.py"}, "distributed": {"devices": "cpu"}}, tmp_path)
    found = cluster_facts(asked)
    made = plan_from(asked, found)
    assert made.nodes[0].command == (sys.executable, "-u", "@{code}/train.py")
    assert (made.code.folder, list(made.code.files)) == (str(tmp_path), ["train.py"])
