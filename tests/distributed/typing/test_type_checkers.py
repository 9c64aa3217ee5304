"""mypy --strict and pyright see the real types of the public names, in right and wrong uses."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import torchdeck.compat.augmentation
import torchdeck.compat.batch_plans
import torchdeck.compat.ddp_fsdp
import torchdeck.compat.object_api
import torchdeck.compat.strategies
import torchdeck.data
import torchdeck.distributed
import torchdeck.integrations

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RIGHT, WRONG = HERE / "right_uses.py", HERE / "wrong_uses.py"
COMPAT = torchdeck.compat
PACKAGES = {
    "torchdeck.data": torchdeck.data,
    "torchdeck.distributed": torchdeck.distributed,
    "torchdeck.compat.augmentation": COMPAT.augmentation,
    "torchdeck.compat.batch_plans": COMPAT.batch_plans,
    "torchdeck.compat.ddp_fsdp": COMPAT.ddp_fsdp,
    "torchdeck.compat.object_api": COMPAT.object_api,
    "torchdeck.compat.object_api.distributed": COMPAT.object_api.distributed,
    "torchdeck.compat.strategies": COMPAT.strategies,
}

Found = Mapping[str, Mapping[int, str]]
"""File name → line → what a checker says there."""


def every_name(folder: Path) -> Path:
    """A file that asks for the type of every public name, one per line."""
    file = folder / "every_name.py"
    asked = [f"reveal_type({package}.{name})" for package, of in PACKAGES.items() for name in of.__all__]
    file.write_text("\n".join([*(f"import {package}" for package in PACKAGES), *asked, ""]))
    return file


def mypy(files: list[Path]) -> Found:
    """What `mypy --strict` with the project's settings and cache says."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)
    assert done.stderr == ""
    said: dict[str, dict[int, str]] = {file.name: {} for file in files}
    for path, line, text in re.findall(r"^(.+?):(\d+): (?:error|note): (.+)$", done.stdout, re.MULTILINE):
        said[Path(path).name].setdefault(int(line), text)
    return said


def pyright(files: list[Path], folder: Path) -> Found:
    """What pyright says, in its standard mode."""
    settings: dict[str, Any] = {
        "include": [str(file) for file in files],
        "extraPaths": [str(ROOT / part) for part in ("core", "app", "resources")],
        "typeCheckingMode": "standard",
        "reportUnusedExpression": False,
        "failOnWarnings": False,
    }
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(project)]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=220, check=False)
    said: dict[str, dict[int, str]] = {file.name: {} for file in files}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        lines = said[Path(item["file"]).name]
        lines.setdefault(item["range"]["start"]["line"] + 1, item["message"])
    return said


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What a type checker says about the three files."""
    folder = tmp_path_factory.mktemp(request.param)
    files = [RIGHT, WRONG, every_name(folder)]
    return mypy(files) if request.param == "mypy" else pyright(files, folder)


def test_right_uses_are_right(found: Found) -> None:
    """Calls as the documentation shows them have no error, and results have the types they say."""
    assert found[RIGHT.name] == {}


def test_each_wrong_use_is_reported(found: Found) -> None:
    """Misspelled names, unknown options and wrong types are reported, each in its line, and nothing else."""
    lines = WRONG.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) > 25
    said = found[WRONG.name]
    assert {number: said.get(number) for number in wrong ^ set(said)} == {}


def test_every_public_name_has_its_type(found: Found) -> None:
    """No public name is Any or unknown."""
    said = found["every_name.py"]
    assert len(said) == sum(len(package.__all__) for package in PACKAGES.values())
    unknown = {line: text for line, text in said.items() if re.search(r'"(Any|Unknown)"$', text)}
    assert unknown == {}
