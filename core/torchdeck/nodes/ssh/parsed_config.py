"""paramiko's parser of an SSH config, with names checked before they become part of a command."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from torchdeck.nodes.ssh.host_names import check_names
from torchdeck.nodes.ssh.quick_paramiko import import_paramiko, run_commands

_COMMANDS = ("match-exec", "proxycommand")
"""paramiko's names of the values that a shell runs."""


def parsed_config(text: str) -> Any:
    """Return a `paramiko.SSHConfig` of `text`.

    Its `lookup` raises TargetError if a command would contain an invalid host or user name.
    """
    import_paramiko()
    from paramiko import SSHConfig

    class ParsedConfig(SSHConfig):
        def _tokenize(self, config: Mapping[str, Any], target_hostname: str, key: str, value: str) -> str:
            """Expand `%h`, `%r` and the like: the only place that sees the names and the command."""
            if key in _COMMANDS:
                user = config.get("user", getpass.getuser())
                check_names(target_hostname, target_hostname, user)
                host = config.get("hostname", target_hostname)
                check_names(target_hostname, host, user, config.get("port", 22))
            filled: str = super()._tokenize(config, target_hostname, key, value)  # type: ignore[misc]  # not in its stubs
            return filled

    if "exec" in text.casefold():
        run_commands()
    return ParsedConfig.from_text(text)
