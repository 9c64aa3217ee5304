"""The code that is sent to look at a node."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.contract.package import FOLDER
from torchdeck.nodes.probe.probe_session import LOADER, payload, without_comments

pytestmark = pytest.mark.processes


def test_every_module_that_is_sent_finds_all_it_imports() -> None:
    """Where no Torchdeck is installed: a module that one of them has come to import must be sent, too."""
    imports = "for name in sent: importlib.import_module(name)\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADER.replace("\nmain()\n", f"\nimport importlib\n{imports}")],
        input=payload(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.decode() == ""
    assert done.returncode == 0


def test_what_is_sent_differs_in_comments_alone() -> None:
    """Of every module: the same statements, on the same lines."""
    for path in Path(FOLDER).rglob("*.py"):
        whole = path.read_text()
        sent = without_comments(whole)
        assert _statements(sent) == _statements(whole), path
        assert sent.count("\n") == whole.count("\n"), path


def test_a_pipe_holds_what_is_sent() -> None:
    """A process that reads nothing is not waited for."""
    assert len(payload()) < 1 << 16


def _statements(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]  # it has one
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
