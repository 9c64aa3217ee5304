"""Compact notation for many node names: `gpu[000-127]`, `rack[1-2]-gpu[0,4-7]`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

MOST = 65_536
"""Most nodes in one text: more is a typo."""

_PART = re.compile(r"\[([^\[\]]*)\]|[^\[\]]+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)

RIGHT_RANGE = 'a name such as "gpu7", or a range such as "gpu[000-127]"'


class NodeNameError(ValueError):
    """A text names no nodes; the message gives the reason."""


def expand(text: str) -> tuple[str, ...]:
    """Return the names that `text` expands to, in order; a leading zero gives all numbers of a range its
    width.

    Several ranges give every combination, the last one counting fastest.

    Raises:
        NodeNameError: a bracket is not closed, a range is invalid or descending, there are more than `MOST`,
            or a name is not allowed for a host.
    """
    if not text or text.startswith(("-", ".")) or re.search(r"[\s\x00-\x1f/]", text):
        raise NodeNameError("it is not a valid name")
    matches = list(_PART.finditer(text))
    if "".join(match.group() for match in matches) != text:
        raise NodeNameError("its brackets do not match")
    literal = "".join(match.group() for match in matches if match.group(1) is None)
    if literal and (fault := host_fault(literal)):
        raise NodeNameError(fault)
    parts = [match.group() if match.group(1) is None else _numbers(match.group(1)) for match in matches]
    count = 1
    for part in parts:
        count *= 1 if isinstance(part, str) else len(part)
    if count > MOST:
        raise NodeNameError(f"it names {count} nodes, but at most {MOST} are allowed")
    choices = [(part,) if isinstance(part, str) else part for part in parts]
    return tuple("".join(chosen) for chosen in itertools.product(*choices))


def expand_all(texts: Iterable[str]) -> list[str]:
    """Return the names that all `texts` expand to, in order; other texts are returned unchanged."""
    names: list[str] = []
    for text in texts:
        try:
            names += expand(text)
        except NodeNameError:
            names.append(text)
    return names


def _numbers(inside: str) -> tuple[str, ...]:
    """Return the content of one pair of brackets: numbers and ranges separated by commas."""
    found: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise NodeNameError(f"[{inside}] is not a range of numbers")
        first, last = match.group(1), match.group(2) or match.group(1)
        low, high = int(first), int(last)
        if high < low:
            raise NodeNameError(f"[{inside}] is a descending range")
        if high - low >= MOST:
            raise NodeNameError(f"[{inside}] is {high - low + 1} numbers, but at most {MOST} are allowed")
        width = len(first) if first.startswith("0") else 0
        found += [str(number).zfill(width) for number in range(low, high + 1)]
    return tuple(found)


# Names of hosts and users that may become part of a command line, where a shell would read them.
#
# A ProxyCommand or a `Match exec` of an SSH config may contain `%h` and `%r`. The rule is the one that ssh
# applies to names on its own command line (`valid_hostname` and `valid_ruser` in OpenSSH's ssh.c), made
# stricter: no name may contain what a shell expands (`$`, `*`, `?`, brackets), and `*`, `?`, `!` and `,`
# would make a pattern in known_hosts.

SHELL = frozenset("'`\"$\\;&<>|(){}*?[]!,")
"""Characters with a meaning to a shell, or in the first column of known_hosts."""
SHELL_OF_USERS = SHELL - frozenset("\\!,")
"""The same for users: `DOMAIN\\user` is one, where a directory knows them by that."""
RIGHT_HOST = 'a host name or address, such as "10.0.0.5"'
RIGHT_USER = 'a user\'s name, such as "root"'


def host_fault(name: str) -> str:
    """Return why `name` must not be the name or address of a host; empty if it may be."""
    return _fault(name, SHELL)


def user_fault(name: str) -> str:
    """Return why `name` must not be the name of a user; empty if it may be."""
    return _fault(name, SHELL_OF_USERS) or ("it ends with a backslash" if name.endswith("\\") else "")


def _fault(name: str, forbidden: frozenset[str]) -> str:
    if not name:
        return "it is empty"
    if name.startswith("-"):
        return "it starts with a dash like an option"
    if name.startswith(("~", "#")):
        return f"it begins with {name[0]}, which has a special meaning in a shell"
    for character in name:
        if character in forbidden:
            return f"it has {character} in it, which has a special meaning in a shell"
        if character.isspace():
            return "it has a blank in it"
        if not character.isprintable():
            return f"it has the character {ord(character):#04x} in it, which is not printable"
    return ""
