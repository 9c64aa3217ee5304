"""`import torchdeck`: light, lazy, and clear where something is not there."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import torchdeck

pytestmark = pytest.mark.processes

PACKAGE = Path(torchdeck.__file__).parent


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter; what it printed."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **variables},
    )


def test_import_brings_nothing_along() -> None:
    """Importing torchdeck and logging loads the standard library alone, and the import itself hardly that."""
    code = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        "import torchdeck\n"
        "light = sorted(set(sys.modules) - before)\n"
        "torchdeck.log({'loss': 1.0})\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(json.dumps([light, sorted(tops - set(sys.stdlib_module_names))]))"
    )
    done = python(code)
    light, foreign = json.loads(done.stdout)
    assert light == ["__future__", "torchdeck"]
    assert foreign == ["torchdeck"]


def test_log_in_a_run_writes(tmp_path: Path) -> None:
    """The launcher's variables alone make log() write into the rank's folder."""
    done = python(
        "import torchdeck; torchdeck.log({'loss': 1.0}, step=1)",
        TORCHDECK_RUN_DIR=str(tmp_path),
        TORCHDECK_ATTEMPT="1",
        RANK="0",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "attempts/1/ranks/0/metrics").glob("*.metrics"))) == 1


def test_log_with_broken_variables_says_so_once(tmp_path: Path) -> None:
    """Variables that cannot be true are said, and the training continues."""
    done = python(
        "import torchdeck; torchdeck.log({'loss': 1.0}); torchdeck.log({'loss': 1.0}); print('continued')",
        TORCHDECK_RUN_DIR=str(tmp_path),
        TORCHDECK_ATTEMPT="1",
        RANK="first",
    )
    assert done.stdout == "continued\n"
    assert done.stderr.count("RANK is 'first': expected a whole number") == 1


def test_launch_is_a_plain_function() -> None:
    """`torchdeck.launch` is a function, however it is imported."""
    for code in (
        "import inspect, torchdeck; print(inspect.isfunction(torchdeck.launch))",
        "import inspect; from torchdeck import launch; print(inspect.isfunction(launch))",
        "import inspect, torchdeck.launching.runtime_bundle; print(inspect.isfunction(torchdeck.launch))",
    ):
        done = python(code)
        assert (done.stdout, done.stderr) == ("True\n", "")


def test_launch_on_a_node_says_why_not(tmp_path: Path) -> None:
    """The copy that is sent to nodes has no launch package, and says so; log is there."""
    copy = tmp_path / "shipped"
    shutil.copytree(
        PACKAGE, copy / "torchdeck", ignore=shutil.ignore_patterns("__pycache__", "launching", "use_cases")
    )
    code = (
        f"import sys; sys.path.insert(0, {str(copy)!r})\n"
        "import torchdeck; torchdeck.log({}); print(torchdeck.__file__)\n"
        "torchdeck.launch('run.toml')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert str(copy) in done.stdout
    assert "torchdeck.launch is not part of what is sent to nodes" in done.stderr


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that is not there fails as in any module, and dir() lists those that are."""
    assert not hasattr(torchdeck, "lunch")
    assert {"log", "launch", "__version__"} <= set(dir(torchdeck))


def test_one_version_everywhere() -> None:
    """The package, its metadata and the project file name the same version."""
    project = PACKAGE.parent.parent / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == torchdeck.__version__
    assert importlib.metadata.version("torchdeck") == torchdeck.__version__
