"""A process that the engine starts by a module's name: the module stands no higher than its starter.

import-linter sees imports alone; an arrow upward by a string would escape it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ROOT / "core"
MODULE = re.compile(r"torchdeck(?:\.\w+)+")


def heights() -> dict[str, int]:
    """Each room's layer, the lowest 0, as import-linter has them."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    (order,) = (each["layers"] for each in contracts if each.get("containers") == ["torchdeck"])
    rooms = ((layer.split(" : "), height) for height, layer in enumerate(reversed(order)))
    return {room: height for names, height in rooms for room in names}


def named_modules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines with a module of ours in a string, and the module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if MODULE.fullmatch(node.value):
            yield node.lineno, node.value


def is_program(name: str) -> bool:
    """Whether `python -m` runs it; other modules are named where they are registered."""
    path = CORE.joinpath(*name.split("."))
    alone = path.with_suffix(".py")
    return (path / "__main__.py").is_file() or (alone.is_file() and "__main__" in alone.read_text("utf-8"))


def upward(path: Path, tree: ast.Module, layer: Mapping[str, int]) -> Iterator[str]:
    """Programs in a higher room that this file names."""
    room = path.relative_to(CORE).with_suffix("").parts[1]
    for line, name in named_modules(tree):
        if is_program(name) and layer[name.split(".")[1]] > layer[room]:
            yield f"{path.relative_to(ROOT)}:{line} {name}"


def test_the_rule_finds_what_it_forbids() -> None:
    starter = CORE / "torchdeck" / "launching" / "launcher.py"
    higher = ast.parse('argv = [python, "-m", "torchdeck.cli.main"]')
    lower = ast.parse('argv = [python, "-m", "torchdeck.distributed.exchange.tool"]')
    assert len(list(upward(starter, higher, heights()))) == 1
    assert list(upward(starter, lower, heights())) == []


def test_no_process_is_started_upward() -> None:
    files, layer = sorted((CORE / "torchdeck").glob("*/**/*.py")), heights()
    assert len(files) > 400
    texts = ((path, path.read_text("utf-8")) for path in files)
    trees = ((path, ast.parse(text)) for path, text in texts if '"torchdeck.' in text)
    assert [each for path, tree in trees for each in upward(path, tree, layer)] == []
