"""Shell line that starts a node's Python, in its environment."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from torchdeck.nodes.inventory.schema import NodeEntry

PYTHON = "python3"
CONDA_ROOTS = ("miniforge3", "miniconda3", "mambaforge", "anaconda3", "conda")
"""Common installation folders of conda, in a user's home or in /opt."""


class TrustedContent(NamedTuple):
    """Content with which an activation script of the user's own may run."""

    digest: str
    """SHA-256 in hexadecimal, or another word if no content is trusted."""
    fix: str
    """Remedy if its content is another one, without its period."""


def python_line(entry: NodeEntry, arguments: Sequence[str], trusted: TrustedContent | None = None) -> str:
    """Return a script for a POSIX shell of a node that runs its Python with `arguments`, byte for byte.

    The shell becomes that Python, which has the line's standard input and output for itself. Output of the
    environment's activation goes to standard error, and it reads nothing. Code that other users can change is
    refused before it runs, and so is an activation script of the user's own that has changed.

    Args:
        entry: the node's entry in the inventory.
        arguments: arguments of its Python.
        trusted: content of its activation script; None if it has not been used yet.
    """
    words, owners = shlex.join(arguments), entry.trusted_owners
    if entry.venv is not None:
        venv = remote_path(entry.venv)
        check = own_code("run", [f"{venv}/bin/python"], owners)
        return f'{check} && exec env VIRTUAL_ENV={venv} PATH={venv}/bin:"$PATH" {venv}/bin/python {words}'
    if entry.conda is not None:
        return f"{_activate_conda(entry.conda, owners)} && {_run_on_path(PYTHON, owners)} {words}"
    run = f"{_run(entry)} {words}"
    if entry.activate is not None:
        script = remote_path(entry.activate)
        return f"{own_code('sourced', [script], owners, trusted)} && . {script} </dev/null >&2 && {run}"
    return run


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


def _run(entry: NodeEntry) -> str:
    """Return the start of a line that checks a node's Python and becomes it; its arguments follow."""
    if entry.python is None or "/" not in entry.python:
        return _run_on_path(entry.python or PYTHON, entry.trusted_owners)
    word = remote_path(entry.python)
    return f"{own_code('run', [word], entry.trusted_owners)} && exec {word}"


def _run_on_path(name: str, owners: Sequence[str]) -> str:
    """Return the same for a program on PATH, as it is after an activation. A missing one is reported by
    starting it.
    """
    # another shell looks it up: it has no aliases and functions, which `exec` would not run either
    look = shlex.join(["/bin/sh", "-c", 'command -v "$1" || printf %s "$1"', "sh", name])
    python = '"$torchdeck_python"'
    return f"torchdeck_python=$({look} </dev/null) && {own_code('run', [python], owners)} && exec {python}"


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
    name = shlex.quote(environment)
    folders = [f'"$root"/envs/{name}', f'"$HOME"/.conda/envs/{name}']
    folders = [remote_path(environment)] if "/" in environment else folders
    script, pythons = '"$root"/etc/profile.d/conda.sh', [f"{folder}/bin/python3" for folder in folders]
    check = own_code("run", [script, '"$root"/bin/conda', *pythons], owners)
    elsewhere = "" if "/" in environment else f" && {_check_conda_elsewhere(environment, folders, owners)}"
    source = f". {script} </dev/null >&2"
    activate = f"conda activate {remote_path(environment)} </dev/null >&2"
    return f"{look}; {is_there} && {check} && {source}{elsewhere} && {activate}"


def _check_conda_elsewhere(environment: str, folders: Sequence[str], owners: Sequence[str]) -> str:
    """Check an environment that is in none of `folders` but in another one of conda's settings.

    conda itself reports where, by the commands that activate it.
    """
    is_usual = " || ".join(f"[ -d {folder} ]" for folder in folders)
    commands = f"conda shell.posix activate {shlex.quote(environment)} </dev/null 2>/dev/null"
    find = f"{commands} | sed -n \"s/^export CONDA_PREFIX='\\(.*\\)'\\$/\\1/p\""
    check = own_code("run", ['"$torchdeck_conda"/bin/python3'], owners)
    return f'{{ {is_usual} || {{ torchdeck_conda=$({find}); [ -z "$torchdeck_conda" ] || {check}; }}; }}'


# Shell line that runs on a node and refuses code of an environment that another user can change.
#
# The node inventory is the user's own, and naming code in it approves running it. This line is the part of
# `launching.gate` for files on a node: the same rules for owner and mode, applied there.

_CHECK = r"""
verb=$1 content=$3 again=$4
mine="0 $(id -u)" named= group= outer=
for name in $2; do named="$named $(id -u "$name" 2>/dev/null)"; done
# a group of the user's own name has no other members
[ "$(id -un)" = "$(id -gn)" ] && group=$(id -g)
# a user namespace without root shows files of the root outside as owned by the overflow user
if [ -r /proc/self/uid_map ]; then
  outer=$(cat /proc/sys/kernel/overflowuid)
  while read -r inside _; do [ "$inside" = 0 ] && outer=; done </proc/self/uid_map
fi

# The places that decide what a path leads to: all folders above, links on the way and their folders.
check() {
  code=$1 rest=${1#/} at= links=0
  set -- /
  while [ -n "$rest" ]; do
    part=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    case $part in '' | .) continue ;; ..) at=${at%/*}; continue ;; esac
    next=$at/$part
    [ -e "$next" ] || break  # starting it reports that
    set -- "$@" "$next"
    [ -h "$next" ] || { at=$next; continue; }
    links=$((links + 1))
    [ $links -le 40 ] || break
    rest=$(readlink "$next")/$rest
    case $rest in /*) at= ;; esac
  done
  places=$(LC_ALL=C ls -ldn "$@") || refuse "the folders above it cannot be inspected"
  printf '%s\n' "$places" | judge
}

judge() {
  while read -r mode _ owner of line; do
    place=/${line#*/}
    case $mode in l*) place=${place%% -> *} ;; esac
    who=other
    case " $mine " in *" $owner "*) who=mine ;; esac
    case " $named " in *" $owner "*) who=named ;; esac
    case $mode in d*) [ "$owner" = "$outer" ] && who=mine ;; esac
    if [ $who = other ]; then
      owner=$(id -un "$owner" 2>/dev/null || echo "$owner")
      fix="If $owner may run code as you there, add trusted_owners = [\"$owner\"] to the node."
      refuse "$place belongs to $owner. $fix"
    fi
    case $mode in
      l* | d????????[tT]*) ;;  # only the owner of a link, or of an entry of a sticky folder, can replace it
      ????????w*) refuse "everyone can write $place: chmod o-w '$place'" ;;
      ?????w*)
        [ $who = named ] && continue
        case $mode in *+) ;; *) [ "$of" = "$group" ] || [ "$owner $of" = "0 0" ] && continue ;; esac
        refuse "its group can write $place: chmod g-w '$place'" ;;
    esac
  done
}

# Content counts for scripts of this user: root and trusted owners update theirs without notice.
same() {
  [ -n "$content" ] || return 0
  LC_ALL=C ls -Lldn "$1" | { read -r _ _ owner _; [ "$owner" = "$(id -u)" ]; } || return 0
  [ "$(sha256sum <"$1" 2>/dev/null)" = "$content  -" ] ||
    refuse "its content is not what was trusted: $again"
}

refuse() { printf '%s: not %s, as %s\n' "$code" "$verb" "$1" >&2; exit 126; }

shift 4
for path; do
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  check "$path" || exit 126
  [ -e "$path" ] && { code=$path; same "$path"; }
  case $path in */bin/*) ;; *) continue ;; esac
  for site in "${path%/bin/*}"/lib*/python*/site-packages; do check "$site" || exit 126; done
done
"""


def own_code(
    verb: str,
    paths: Sequence[str],
    trusted_owners: Sequence[str] = (),
    trusted: TrustedContent | None = None,
) -> str:
    """Return a line for a POSIX shell that ends it with exit code 126 unless all `paths` are safe to execute.

    A file is safe if it and every folder above belong to the user or root and no one else can write them.
    Only the folders above a missing file are checked: starting it reports that it is missing. For a file in
    `bin` the packages next to it are checked, too.

    Args:
        verb: what is done with the paths, such as "sourced".
        paths: words of a shell line.
        trusted_owners: other users whose files pass, also files that their group can write.
        trusted: content that files of the node's own user must have; None for any.
    """
    content = trusted or ("", "")
    words = shlex.join(["/bin/sh", "-c", _CHECK, "torchdeck", verb, " ".join(trusted_owners), *content])
    return f"{{ {words} {' '.join(paths)} </dev/null || exit 126; }}"
