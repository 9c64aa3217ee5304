"""Shell line that runs on a node and refuses code of an environment that another user can change.

The node inventory is the user's own, and naming code in it approves running it. This line is the part of
`launching.gate` for files on a node: the same rules for owner and mode, applied there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_CHECK = r"""
verb=$1
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
    [ -e "$next" ] || return 0  # starting it reports that
    set -- "$@" "$next"
    [ -h "$next" ] || { at=$next; continue; }
    links=$((links + 1))
    [ $links -le 40 ] || return 0
    rest=$(readlink "$next")/$rest
    case $rest in /*) at= ;; esac
  done
  places=$(LC_ALL=C ls -ldn "$@") || refuse "the folders above it cannot be looked at"
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

refuse() { printf '%s: not %s, as %s\n' "$code" "$verb" "$1" >&2; exit 126; }

shift 2
for path; do
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  check "$path" || exit 126
  case $path in */bin/*) ;; *) continue ;; esac
  for site in "${path%/bin/*}"/lib*/python*/site-packages; do check "$site" || exit 126; done
done
"""


def own_code(verb: str, paths: Sequence[str], trusted_owners: Sequence[str] = ()) -> str:
    """Return a line for a POSIX shell that ends it with exit code 126 unless all `paths` are safe to execute.

    A file is safe if it and every folder above belong to the user or root and no one else can write them. A
    missing file passes, as starting it reports that.

    Args:
        verb: what is done with the paths, such as "sourced".
        paths: words of a shell line.
        trusted_owners: other users whose files pass, also files that their group can write.
    """
    words = shlex.join(["/bin/sh", "-c", _CHECK, "torchdeck", verb, " ".join(trusted_owners)])
    return f"{{ {words} {' '.join(paths)} </dev/null || exit 126; }}"
