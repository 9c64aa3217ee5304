"""Source code of the node's end, which its Python runs from memory."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from torchdeck.contract.package import FOLDER

_MAIN = "torchdeck.agent.probe.answer"
# not `ast`: Python 3.11 fails if two threads parse at the same moment (python/cpython#106905)
_IMPORT = re.compile(r"^[ ]*from (torchdeck[\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)

LOADER = """
import importlib.machinery, json, sys, zlib
sent = json.loads(zlib.decompress(sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))))
class Sent:  # not of importlib.abc, which imports half of what starts here
    def find_spec(self, name, path=None, target=None):
        if name in sent:
            return importlib.machinery.ModuleSpec(name, self, is_package=sent[name][1])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(sent[module.__name__][0], "<sent " + module.__name__ + ">", "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
from torchdeck.agent.probe.answer import main
main()
"""
ARGUMENTS = ("-I", "-c", LOADER)
"""Arguments of the node's Python; the first data on its standard input must be `payload()`."""


@cache
def payload() -> bytes:
    """Return length and compressed JSON of {module: (source, is a package)}; a pipe holds it before it is
    read.
    """
    text = zlib.compress(json.dumps(_modules()).encode("utf-8"))
    return f"{len(text)}\n".encode() + text


def _modules() -> dict[str, tuple[str, bool]]:
    """Return module → (source, is a package): the one that answers and all modules of ours that it
    imports.
    """
    package = Path(FOLDER)
    found: dict[str, tuple[str, bool]] = {"torchdeck": ("", True)}
    wanted = [_MAIN]
    while wanted:
        name = wanted.pop()
        place = package.joinpath(*name.split(".")[1:])
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if name in found or not path.is_file():  # a name that a module defines, or another package's
            continue
        source = path.read_text(encoding="utf-8")
        found[name] = (source, place.is_dir())
        wanted += [name.rpartition(".")[0], *_imports(source)]
    return found


def _imports(source: str) -> Iterator[str]:
    """Yield imports of our modules, in functions, too: modules, and names that may be modules."""
    for module, names in _IMPORT.findall(source):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))
