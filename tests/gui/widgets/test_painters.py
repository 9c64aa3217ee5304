"""A painter that outlives its paint event makes Qt warn, and nothing after it is painted."""

import ast
from pathlib import Path

import torchdeck_app

APP = Path(torchdeck_app.__file__).parent


def _made_and_ended(function: ast.FunctionDef) -> tuple[int, int]:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    made = sum(isinstance(call, ast.Name) and call.id == "QPainter" for call in calls)
    ended = sum(isinstance(call, ast.Attribute) and call.attr == "end" for call in calls)
    return made, ended


def test_who_makes_a_painter_ends_it() -> None:
    """It goes with its frame, but whatever holds the frame, such as a look at all threads, keeps it."""
    functions = [
        (path.relative_to(APP), node)
        for path in sorted(APP.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    painting = [(path, node.name, *_made_and_ended(node)) for path, node in functions]
    assert sum(made for _, _, made, _ in painting) > 20
    assert [(path, name) for path, name, made, ended in painting if ended < made] == []
