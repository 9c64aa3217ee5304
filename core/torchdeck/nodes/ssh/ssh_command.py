"""Command line of OpenSSH that reaches a node as Torchdeck does: same keys, known hosts and jump hosts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.ssh.target import SshTarget


def ssh_argv(entry: NodeEntry, target: SshTarget, line: str, program: str = "ssh") -> tuple[str, ...]:
    """Return the words that run a line on a node with a terminal there.

    Whatever the entry does not say is left to ssh, which reads its own configuration.

    Args:
        entry: the node's entry in the node inventory.
        target: route to it, by that entry.
        line: for the node's login shell.
        program: path or name of ssh.
    """
    words = [program, "-t"]
    if entry.port is not None:
        words += ["-p", str(entry.port)]
    if entry.user is not None:
        words += ["-l", entry.user]
    if entry.key is not None:
        words += ["-i", str(Path(entry.key).expanduser())]
    words += _known_hosts(target)
    if entry.jump:
        words += ["-o", f"ProxyCommand={_through(target.jumps, program)}"]
    return (*words, "--", entry.address, line)


def _through(hops: Sequence[SshTarget], program: str) -> str:
    """Return the command that connects to the next host through `hops`; ssh fills in `%h` and `%p`."""
    *before, last = hops
    words = [program, "-p", str(last.port), "-l", last.user, *_known_hosts(last)]
    for key in last.identity_files:
        words += ["-i", str(key)] if key.is_file() else []
    if before:
        words += ["-o", f"ProxyCommand={_through(before, program)}"]
    elif last.proxy_command is not None:
        words += ["-o", f"ProxyCommand={_escaped(last.proxy_command)}"]
    if last.host_key_alias is not None:
        words += ["-o", f"HostKeyAlias={last.host_key_alias}"]
    return f"{_escaped(shlex.join(words))} -W '[%h]:%p' -- {_escaped(shlex.quote(last.host))}"


def _escaped(command: str) -> str:
    """Return a command as ssh leaves it: it replaces `%h` and others."""
    return command.replace("%", "%%")


def _known_hosts(target: SshTarget) -> list[str]:
    """Return the option that names the files of known host keys, quoted as in ssh's configuration."""
    files = [str(path) for path in target.known_hosts]
    usable = [f'"{path}"' for path in files if '"' not in path]
    return ["-o", f"UserKnownHostsFile={' '.join(usable)}"] if usable else []
