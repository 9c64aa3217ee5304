"""What is imported before a place is made."""

import ast
import json
import subprocess
import sys
from pathlib import Path

READERS = (
    "torchdeck.runs.",
    "torchdeck.contract.",
    "torchdeck.telemetry.",
    "torchdeck_app.runs.",
    "torchdeck_app.bridge.",
)
"""Whose functions run in threads while the window imports its other places."""
LOADED = """
import importlib, json, sys
from torchdeck_app.window.application import page_entries
(runs,) = (entry for entry in page_entries(None, None, None, None) if entry.name == "Runs")
for module in runs.modules:
    importlib.import_module(module)
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""


def imported_in_functions(path: str) -> set[str]:
    """Modules of torchdeck that the functions of a file import."""
    return {
        node.module
        for function in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torchdeck.")
    }


def test_threads_that_read_runs_import_nothing() -> None:
    """Two threads that import the packages of each other's at once see half of them: pydantic fails then."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = json.loads(done.stdout)
    readers = {name: path for name, path in loaded.items() if name.startswith(READERS)}
    wanted = {(name, module) for name, path in readers.items() for module in imported_in_functions(path)}
    assert len(readers) > 50
    assert wanted, "none of them imports in a function any more: this test shows nothing"
    assert not {found for found in wanted if found[1] not in loaded}
