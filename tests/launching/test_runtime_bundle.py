"""The shipped folder: what is in it, its name, and that it is mended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import torchdeck
from torchdeck.launching.runtime_bundle import PACKAGES, BundleError, bundle_content, content_hash, ship

PACKAGE = Path(torchdeck.__file__).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a few modules: the real one takes a second to compile."""
    folder = tmp_path / "torchdeck"
    for name in ("__init__.py", "environment.py", "agent/gang/gang.py", "agent/processes/shim.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"NAME = {name!r}\n")
    return folder


def test_shipped_folder_holds_what_nodes_need_and_no_more(torchdeck_home: Path) -> None:
    """Agent, rank shim, writer, training and the plan's format; nothing of the desktop side."""
    names = bundle_content(PACKAGE)
    for name in (
        "__init__.py",
        "agent/__main__.py",
        "agent/processes/rank_holder.sh",
        "telemetry/writer.py",
        "contract/plan/slots.py",
    ):
        assert name in names
    assert {name.partition("/")[0] for name in names} == {
        "__init__.py",
        "environment.py",
        "contract",
        "agent",
        "telemetry",
        "trainers",
        "data",
        "distributed",
        "recipes",
        "tracing",
        "compat",
    }
    assert not [name for name in names if "reader" in name or "__pycache__" in name]


@pytest.mark.processes
def test_shipped_part_imports_alone(torchdeck_home: Path) -> None:
    """All that needs no torch imports from the folder, in isolated mode, with nothing else of ours."""
    folder = ship(torchdeck_home)
    names = [
        f"torchdeck.{name[:-3].replace('/', '.')}"
        for name in bundle_content(PACKAGE)
        if name.split("/")[0] in ("agent", "contract", "telemetry") and name.endswith(".py")
        if not name.endswith(("__init__.py", "__main__.py"))
    ]
    code = f"""
import importlib, sys
sys.path.insert(0, {str(folder)!r})
for name in {names!r}:
    importlib.import_module(name)
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "torchdeck"]
assert all({str(folder)!r} in module.__file__ for module in ours), ours
assert not {{"numpy", "torch", "pydantic", "rich"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_same_content_is_the_same_folder(torchdeck_home: Path, package: Path) -> None:
    """Shipping twice writes once; the name changes with one byte."""
    first = ship(torchdeck_home, package)
    before = (first / "torchdeck" / "agent" / "gang" / "gang.py").stat().st_mtime_ns
    assert ship(torchdeck_home, package) == first
    assert (first / "torchdeck" / "agent" / "gang" / "gang.py").stat().st_mtime_ns == before
    assert sorted(path.name for path in first.parent.iterdir()) == [first.name]
    content = bundle_content(package)
    assert content_hash(content) == first.name
    assert content_hash({**content, "__init__.py": content["__init__.py"] + b"\n"}) != first.name


@pytest.mark.parametrize("damage", ["changed", "missing", "added"])
def test_damaged_folder_is_made_anew(torchdeck_home: Path, package: Path, damage: str) -> None:
    """A changed, missing or further file is noticed before anything runs from it."""
    folder = ship(torchdeck_home, package)
    file = folder / "torchdeck" / "agent" / "processes" / "shim.py"
    good = file.read_bytes()
    added = file.with_name("signal.py")
    if damage == "missing":
        file.unlink()
    else:
        (file if damage == "changed" else added).write_bytes(b"import evil\n")
    assert ship(torchdeck_home, package) == folder
    assert file.read_bytes() == good
    assert not added.exists()


def test_byte_code_belongs_to_the_sources(torchdeck_home: Path, package: Path) -> None:
    """Compiled files are checked against their source by hash, so damage cannot hide in them."""
    folder = ship(torchdeck_home, package)
    cache = folder / "torchdeck" / "agent" / "gang" / "__pycache__"
    compiled = next(cache.glob("gang.*.pyc")).read_bytes()
    assert int.from_bytes(compiled[4:8], "little") == 0b11  # PEP 552: by hash, checked


def test_two_launches_at_once_ship_one_folder(torchdeck_home: Path, package: Path) -> None:
    """No one finds a half-made folder."""
    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            folders = list(pool.map(lambda _: ship(torchdeck_home, package), range(4)))
        assert len(set(folders)) == 1
        (folders[0] / "torchdeck" / "environment.py").unlink()  # damaged: the next ones make it again
    folders = [ship(torchdeck_home, package)]
    assert [path.name for path in folders[0].parent.iterdir()] == [folders[0].name]


def test_who_ships_removes_what_a_killed_one_left(torchdeck_home: Path, package: Path) -> None:
    """Not what someone may be making now."""
    shipped = torchdeck_home / "shipped"
    (shipped / ".making-old").mkdir(parents=True)
    (shipped / ".making-new").mkdir()
    os.utime(shipped / ".making-old", (0, 0))
    folder = ship(torchdeck_home, package)
    assert sorted(path.name for path in shipped.iterdir()) == [".making-new", folder.name]


def test_unwritable_home_is_a_sentence(tmp_path: Path) -> None:
    """It says what to do."""
    (tmp_path / "shipped").touch()
    with pytest.raises(BundleError, match="set another TORCHDECK_HOME"):
        ship(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shipped"]


def test_the_lists_of_the_runtime_bundle_agree() -> None:
    """Where it is sent from, ruff's version of Python, and import-linter's contracts."""
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
    modules = {f"torchdeck.{name}" for name in PACKAGES} | {"torchdeck.environment"}
    versions = project["tool"]["ruff"]["per-file-target-version"]
    named = {
        name
        for pattern in versions
        for name in re.findall(r"\w+", pattern.partition("{")[2].partition("}")[0])
    }
    assert named - {"integrations"} == {*PACKAGES, "__init__", "environment"}
    contracts = {contract["name"]: contract for contract in project["tool"]["importlinter"]["contracts"]}
    bundle = contracts["the runtime bundle knows nothing of the desktop side"]
    assert {*bundle["source_modules"]} - {"torchdeck.integrations"} == modules
    # a folder that a move left behind has compiled files alone, and is no package
    packages = {f"torchdeck.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    desktop = packages - {*bundle["source_modules"]}
    assert {*bundle["forbidden_modules"]} == desktop
