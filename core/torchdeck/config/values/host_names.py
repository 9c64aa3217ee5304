"""Names of hosts and users that may become part of a command line, where a shell would read them.

A ProxyCommand or a `Match exec` of an SSH config may contain `%h` and `%r`. The rule is the one that ssh
applies to names on its own command line (`valid_hostname` and `valid_ruser` in OpenSSH's ssh.c), made
stricter: no name may contain what a shell expands (`$`, `*`, `?`, brackets), and `*`, `?`, `!` and `,` would
make a pattern in known_hosts.
"""

from __future__ import annotations

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
        return "it begins with a dash, as an option does"
    if name.startswith(("~", "#")):
        return f"it begins with {name[0]}, which means something to a shell"
    for character in name:
        if character in forbidden:
            return f"it has {character} in it, which means something to a shell"
        if character.isspace():
            return "it has a blank in it"
        if not character.isprintable():
            return f"it has the character {ord(character):#04x} in it, which is not printable"
    return ""
