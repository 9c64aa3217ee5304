"""Shell line that starts a node's Python, in its environment."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.own_code import own_code

PYTHON = "python3"
CONDA_ROOTS = ("miniforge3", "miniconda3", "mambaforge", "anaconda3", "conda")
"""Common installation folders of conda, in a user's home or in /opt."""


def python_line(entry: NodeEntry, arguments: Sequence[str]) -> str:
    """Return a script for a POSIX shell of a node that runs its Python with `arguments`, byte for byte.

    The shell becomes that Python, which has the line's standard input and output for itself. Output of the
    environment's activation goes to standard error, and it reads nothing. Code that other users can change is
    refused before it runs.
    """
    words, owners = shlex.join(arguments), entry.trusted_owners
    if entry.venv is not None:
        venv = remote_path(entry.venv)
        check = own_code("run", [f"{venv}/bin/python"], owners)
        return f'{check} && exec env VIRTUAL_ENV={venv} PATH={venv}/bin:"$PATH" {venv}/bin/python {words}'
    if entry.conda is not None:
        return f"{_activate_conda(entry.conda, owners)} && exec {PYTHON} {words}"
    python, check = _python(entry)
    if entry.activate is not None:
        script = remote_path(entry.activate)
        source = f"{own_code('sourced', [script], owners)} && . {script} </dev/null >&2"
        return f"{source} && {check} exec {python} {words}"
    return f"{check} exec {python} {words}"


def chosen_by(entry: NodeEntry) -> str:
    """Return the key of the node inventory that selects a node's Python."""
    return next((key for key in ("venv", "conda", "activate") if getattr(entry, key) is not None), "python")


def remote_path(path: str) -> str:
    """Return a path on a node as a word of a shell line; a leading `~` is the home there."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}'
    return shlex.quote(path)


def _python(entry: NodeEntry) -> tuple[str, str]:
    """Return the Python as a word of a shell line, and the check before it.

    A name is looked up on the PATH of the user's own login, which is not checked.
    """
    if entry.python is None or "/" not in entry.python:
        return shlex.quote(entry.python or PYTHON), ""
    word = remote_path(entry.python)
    return word, f"{own_code('run', [word], entry.trusted_owners)} &&"


def _activate_conda(environment: str, owners: Sequence[str]) -> str:
    """Source conda's own script, wherever conda is, and activate an environment by name or path."""
    roots = [f'"$HOME"/{name}' for name in CONDA_ROOTS] + [f"/opt/{name}" for name in CONDA_ROOTS]
    if environment.startswith(("/", "~")):  # usually in the envs folder of its conda
        roots.insert(0, f"{remote_path(environment)}/../..")
    found = '"${CONDA_EXE%/bin/conda}" "$(dirname "$(dirname "$(command -v conda)")")"'
    look = f"for root in {found} {' '.join(roots)}; do "
    look += '[ -f "$root/etc/profile.d/conda.sh" ] && break; root=; done </dev/null'
    missing = "echo 'no conda was found on this node: name its Python with python = instead' >&2"
    is_there = f'{{ [ -n "$root" ] || {{ {missing}; exit 127; }}; }}'
    folder = remote_path(environment) if "/" in environment else f'"$root"/envs/{shlex.quote(environment)}'
    script = '"$root"/etc/profile.d/conda.sh'
    check = own_code("run", [script, '"$root"/bin/conda', f"{folder}/bin/python"], owners)
    source = f". {script} </dev/null >&2 && conda activate {remote_path(environment)}"
    return f"{look}; {is_there} && {check} && {source} </dev/null >&2"
