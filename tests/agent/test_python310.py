"""What is shipped to nodes runs on Python 3.10."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.agents.agent_run import CORE, FAKE_TORCHRUN, Maker
from support.system.old_python import python310
from torchdeck.launching.runtime_bundle import ship

pytestmark = pytest.mark.processes

STDLIB_PACKAGES = ("contract", "agent", "telemetry")
OTHERS = (
    "environment.py",
    "__init__.py",
    "distributed/__init__.py",
    "distributed/torchrun.py",
)


@pytest.fixture
def old_python() -> str:
    """A Python 3.10, or the test is skipped."""
    found = python310()
    if found is None:
        pytest.skip("there is no Python 3.10 here: neither python3.10 on the PATH nor in pyenv")
    return found


def stdlib_modules(package: Path) -> list[str]:
    """Names of the shipped modules that import the standard library alone."""
    files = [path for part in STDLIB_PACKAGES for path in sorted((package / part).rglob("*.py"))]
    files += [package / name for name in OTHERS]
    names = [".".join(("torchdeck", *path.relative_to(package).with_suffix("").parts)) for path in files]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def test_every_stdlib_module_is_imported_by_310(tmp_path: Path, old_python: str) -> None:
    """In an interpreter without site packages, so that nothing but the standard library is there."""
    shipped = ship(tmp_path)
    modules = stdlib_modules(shipped / "torchdeck")
    assert "torchdeck.agent.gang.gang" in modules
    program = (
        f"import sys; sys.path.insert(0, {str(shipped)!r})\nimport importlib\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    result = subprocess.run(
        [old_python, "-I", "-S", "-B", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_a_run_is_supervised_by_310(make_run: Maker, tmp_path: Path, old_python: str) -> None:
    """Agent and shim of the shipped folder, all under 3.10: a failing run ends with its traceback."""
    shipped = ship(tmp_path / "node home")
    run = make_run(
        "import torchdeck; torchdeck.log({'loss': 1.0}, step=1); raise ValueError('words')",
        torchrun=(old_python, str(FAKE_TORCHRUN)),
    )
    run.start(python=old_python, core=shipped)
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "ValueError: words" in finished["why"]
    # the rank that raised has logged before; the other one may have been ended before it came to that
    raised = run.wait("attempt_ended", 5.0).fields["first_failure"]["rank"]
    assert list(run.layout.attempt(1).rank(raised).metrics.iterdir())


def test_agent_and_holder_import_no_more_than_they_need() -> None:
    """Their start is on the way of every launch: none of the standard library's heavy packages."""
    heavy = {
        "asyncio",
        "multiprocessing",
        "logging.handlers",
        "unittest",
        "email",
        "http",
        "urllib.request",
        "ssl",
    }
    for name in ("agent.__main__", "agent.processes.shim"):
        program = (
            f"import sys; sys.path.insert(0, {str(CORE)!r})\nimport importlib\n"
            f"importlib.import_module('torchdeck.{name}')\nprint(*sorted(sys.modules))"
        )
        result = subprocess.run(
            [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
        )
        assert not heavy & set(result.stdout.split())
