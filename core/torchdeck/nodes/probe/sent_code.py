"""The code that answers on a node, as text that its Python runs from memory."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

import torchdeck

MODULES = (
    "torchdeck.agent",
    "torchdeck.agent.disk",
    "torchdeck.agent.processes.ending",
    "torchdeck.agent.gpus",
    "torchdeck.agent.attempt.leases",
    "torchdeck.agent.machine",
    "torchdeck.agent.probe",
    "torchdeck.agent.probe.answer",
    "torchdeck.agent.probe.files",
    "torchdeck.agent.probe.gpus",
    "torchdeck.agent.probe.marks",
    "torchdeck.agent.probe.network",
    "torchdeck.agent.probe.pythons",
    "torchdeck.agent.probe.reach",
    "torchdeck.agent.probe.run_folders",
    "torchdeck.agent.probe.runs",
    "torchdeck.agent.probe.seen",
    "torchdeck.agent.probe.system",
    "torchdeck.agent.probe.trial",
    "torchdeck.agent.process_title",
    "torchdeck.agent.snapshots",
    "torchdeck.agent.snapshots.blobs",
    "torchdeck.agent.snapshots.folder",
    "torchdeck.agent.snapshots.manifest",
    "torchdeck.contract",
    "torchdeck.contract.atomic",
    "torchdeck.contract.bounded_file",
    "torchdeck.contract.bounded_json",
    "torchdeck.contract.file_names",
    "torchdeck.contract.inodes",
    "torchdeck.contract.layout",
    "torchdeck.contract.lock_file",
    "torchdeck.contract.processes",
)
"""What is sent, beside an empty `torchdeck`."""

LOADER = """
import gc, importlib.machinery, json, sys, zlib
gc.disable()  # until all is loaded, which stays
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
gc.freeze()
gc.enable()
main()
"""
ARGUMENTS = ("-I", "-c", LOADER)
"""For the node's Python; the first thing on its standard input must be `payload()`."""


@cache
def payload() -> bytes:
    """Length and compressed JSON of {module: (source, is a package)}; a pipe takes it before it is read."""
    package = Path(torchdeck.__file__).parent
    sent = {"torchdeck": ("", True), **{name: _source(package, name) for name in MODULES}}
    text = zlib.compress(json.dumps(sent).encode("utf-8"))
    return f"{len(text)}\n".encode() + text


def _source(package: Path, name: str) -> tuple[str, bool]:
    place = package.joinpath(*name.split(".")[1:])
    if place.is_dir():
        return (place / "__init__.py").read_text(encoding="utf-8"), True
    return place.with_suffix(".py").read_text(encoding="utf-8"), False
