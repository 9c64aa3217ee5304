"""Shell line that starts a node's Python, in its environment."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from torchdeck.nodes.inventory.schema import NodeEntry

PYTHON = "python3"
CONDA_ROOTS = ("miniforge3", "miniconda3", "mambaforge", "anaconda3", "conda")
"""Common installation folders of conda, in a user's home or in /opt."""


def python_line(entry: NodeEntry, arguments: Sequence[str]) -> str:
    """Return a script for a POSIX shell of a node that runs its Python with `arguments`, byte for byte.

    The shell becomes that Python, which has the line's standard input and output for itself. Output of the
    environment's activation goes to standard error, and it reads nothing.
    """
    words = shlex.join(arguments)
    if entry.venv is not None:
        venv = remote_path(entry.venv)
        return f'exec env VIRTUAL_ENV={venv} PATH={venv}/bin:"$PATH" {venv}/bin/python {words}'
    python = _python(entry)
    if entry.conda is not None:
        return f"{_activate_conda(entry.conda)} && exec {python} {words}"
    if entry.activate is not None:
        script = remote_path(entry.activate)
        return f"{_own_script(script)} && . {script} </dev/null >&2 && exec {python} {words}"
    return f"exec {python} {words}"


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


def _python(entry: NodeEntry) -> str:
    return remote_path(entry.python) if entry.python is not None else PYTHON


def _own_script(script: str) -> str:
    """Fail if users other than its owner, whom the node inventory trusts by naming it, can write the script.

    A group of the same name as the user counts as the user alone. Sourcing reports a missing script.
    """
    refused = (
        f"printf '%s: not sourced, as others can write it: chmod go-w %s\\n' {script} {script} >&2; exit 126"
    )
    bad = '????????w*) false;; ?????w*) [ "$4" = "$(id -g)" ] && [ "$(id -un)" = "$(id -gn)" ];;'
    return (
        f"set -- $(LC_ALL=C ls -Llnd {script} 2>/dev/null); {{ case $1 in {bad} esac || {{ {refused}; }}; }}"
    )


def _activate_conda(environment: str) -> str:
    """Source conda's own script, wherever conda is, and activate an environment by name or path."""
    roots = [f'"$HOME"/{name}' for name in CONDA_ROOTS] + [f"/opt/{name}" for name in CONDA_ROOTS]
    if environment.startswith(("/", "~")):  # usually in the envs folder of its conda
        roots.insert(0, f"{remote_path(environment)}/../..")
    found = '"${CONDA_EXE%/bin/conda}" "$(dirname "$(dirname "$(command -v conda)")")"'
    look = f"for root in {found} {' '.join(roots)}; do "
    look += '[ -f "$root/etc/profile.d/conda.sh" ] && break; root=; done </dev/null'
    missing = "echo 'no conda was found on this node: name its Python with python = instead' >&2"
    source = f'. "$root/etc/profile.d/conda.sh" </dev/null >&2 && conda activate {remote_path(environment)}'
    return f'{look}; {{ [ -n "$root" ] || {{ {missing}; exit 127; }}; }} && {source} </dev/null >&2'
