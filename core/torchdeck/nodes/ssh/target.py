"""Destination and settings of an SSH connection: an entry of the node inventory, merged over the user's SSH
config.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchdeck.contract.layout import Home
from torchdeck.nodes.inventory.address import RIGHT_HOP, hop_fault, jump_parts
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.config_commands import REFUSED, check_names
from torchdeck.nodes.ssh.config_file import SshConfig, config_words
from torchdeck.nodes.ssh.errors import TargetError

DEFAULT_PORT = 22
DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
"""Key files in ~/.ssh, in the order in which OpenSSH tries them."""
MOST_HOPS = 16
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class SshTarget:
    """A host to log in to, and the hosts before it."""

    name: str
    """Display name: the node's name, or `jump host HOST`."""
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    """Private keys in the order in which they are tried; some may not exist."""
    jumps: tuple[SshTarget, ...] = ()
    """Hosts to go through, the first one first; none of them has jumps of its own."""
    proxy_command: str | None = None
    """Command that connects its standard input and output to the host's sshd."""
    host_key_alias: str | None = None
    identities_only: bool = False
    """Whether only those of an agent's keys are used that are among identity_files."""
    agent_socket: str | None = None
    """Socket of the agent; "" for no agent, None for SSH_AUTH_SOCK."""
    known_hosts: tuple[Path, ...] = ()
    """Files of known host keys; some may not exist."""
    trust_file: Path | None = None
    """File in `known_hosts` to which a key is added when the user trusts it."""
    home: Path | None = None
    """TORCHDECK_HOME, which has the list of what is trusted."""

    @property
    def login(self) -> str:
        """`user@host:port`, to which a password belongs."""
        return f"{self.user}@{self.host}:{self.port}"

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names in known_hosts: a key is recorded under the first."""
        if self.host_key_alias is not None:
            return (self.host_key_alias.lower(),)
        host = self.host.lower()
        return (host,) if self.port == DEFAULT_PORT else (f"[{host}]:{self.port}", host)


def target_of(
    name: str, node_inventory: NodeInventory, home: Path, config: SshConfig | None = None
) -> SshTarget:
    """Return the route to the node called `name`.

    Args:
        name: name of a node of the inventory.
        node_inventory: inventory; it also defines the connections of jump hosts that are nodes.
        home: Torchdeck's home, with the trusted host keys.
        config: instead of the user's SSH config.

    Raises:
        TargetError: it is not in the inventory, its jump hosts form a loop, or the SSH config is invalid.
    """
    entry = node_inventory.nodes.get(name)
    if entry is None:
        raise TargetError(name, "it is not in the node inventory; see `torchdeck nodes list`")
    return target_for(name, entry, node_inventory, home, config)


def target_for(
    name: str, entry: NodeEntry, node_inventory: NodeInventory, home: Path, config: SshConfig | None = None
) -> SshTarget:
    """Return the same as `target_of`, for an entry that need not be in the inventory (yet)."""
    finder = _Finder(node_inventory, home, config or SshConfig.of_user())
    target, jumps = finder.of_entry(name, entry)
    return replace(target, jumps=finder.flat(jumps, (name,)))


@dataclass(frozen=True)
class _Finder:
    """Makes targets, each with the jump hosts that its own settings name, as written there."""

    node_inventory: NodeInventory
    home: Path
    config: SshConfig

    def of_entry(self, name: str, entry: NodeEntry) -> tuple[SshTarget, list[str]]:
        given = {"Port": entry.port, "User": entry.user}
        found = self._lookup(name, entry.address, {key: value for key, value in given.items() if value})
        if entry.jump:  # it takes precedence over the SSH config
            found.pop("proxycommand", None)
        target = self._target(name, entry.address, found)
        if entry.key is not None:
            key = Path(entry.key).expanduser()
            more = target.identity_files if "identityfile" in found else ()
            target = replace(target, identity_files=(key, *(path for path in more if path != key)))
        if entry.jump:
            return target, list(entry.jump)
        return target, _jumps(found)

    def flat(self, written: list[str], seen: tuple[str, ...]) -> tuple[SshTarget, ...]:
        """Return all hops of a list of jump hosts: the first one's own hops come before it."""
        hops: list[SshTarget] = []
        for position, hop in enumerate(written):
            target, own = self._of_hop(hop)
            if hop in seen or len(seen) > MOST_HOPS:
                raise TargetError(seen[0], f"its jump hosts lead in a circle: {' → '.join((*seen, hop))}")
            if position == 0:
                hops += self.flat(own, (*seen, hop))
            else:  # reached through those before it, whatever its own settings
                target = replace(target, proxy_command=None)
            hops.append(target)
        return tuple(hops)

    def _of_hop(self, written: str) -> tuple[SshTarget, list[str]]:
        entry = self.node_inventory.nodes.get(written)
        if entry is not None:
            return self.of_entry(written, entry)
        parts = jump_parts(written)
        if parts is None:
            raise TargetError(written, f"a jump host is written as {RIGHT_HOP}")
        if fault := hop_fault(written):
            raise TargetError(written, f"it is not a jump host: {fault}")
        user, host, port = parts
        given = {key: value for key, value in (("User", user), ("Port", port)) if value}
        found = self._lookup(written, host, given)
        return self._target(f"jump host {host}", host, found), _jumps(found)

    def _lookup(self, name: str, host: str, given: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.config.lookup(host, **{key: str(value) for key, value in given.items()})
        except TargetError as error:
            raise TargetError(name, str(error)) from error

    def _target(self, name: str, host: str, found: Mapping[str, Any]) -> SshTarget:
        ours = Home(self.home).known_hosts
        address, user = found.get("hostname") or host, found.get("user") or getpass.getuser()
        check_names(name, address, user)
        return SshTarget(
            name=name,
            host=address,
            port=_port(name, found.get("port")),
            user=user,
            identity_files=_identity_files(found),
            proxy_command=_proxy_command(name, found),
            host_key_alias=found.get("hostkeyalias"),
            identities_only=str(found.get("identitiesonly", "")).lower() == "yes",
            agent_socket=_agent_socket(found),
            known_hosts=(*_known_hosts(found), ours),
            trust_file=ours,
            home=self.home,
        )


def _port(name: str, value: Any) -> int:
    if value is None:
        return DEFAULT_PORT
    if not str(value).isdecimal() or not 1 <= int(value) <= 65535:
        raise TargetError(name, f"{value} is not a port; expected a number from 1 to 65535")
    return int(value)


def _identity_files(found: Mapping[str, Any]) -> tuple[Path, ...]:
    named = [path for path in found.get("identityfile", ()) if path.lower() != "none"]
    if "identityfile" in found:
        return tuple(map(_path, named))
    return usual_keys()


def usual_keys() -> tuple[Path, ...]:
    """Return the default private keys if none is named, whether or not they exist."""
    folder = Path("~/.ssh").expanduser()
    return tuple(folder / name for name in DEFAULT_KEYS)


def _jumps(found: Mapping[str, Any]) -> list[str]:
    """Return the hosts of ProxyJump, unless ProxyCommand comes first."""
    jump = found.get("proxyjump")
    if jump is None or jump.lower() == "none" or _first_said(found) != "proxyjump":
        return []
    return [hop.strip() for hop in jump.split(",") if hop.strip()]


def _proxy_command(name: str, found: Mapping[str, Any]) -> str | None:
    command: str | None = found.get("proxycommand")
    if not command or _first_said(found) != "proxycommand":
        return None
    if command.startswith(REFUSED):
        raise TargetError(name, command.removeprefix(REFUSED))
    return command


def _first_said(found: Mapping[str, Any]) -> str:
    """Return which of ProxyJump and ProxyCommand comes first in the config and therefore counts."""
    return next((key for key in found if key in ("proxyjump", "proxycommand")), "")


def _agent_socket(found: Mapping[str, Any]) -> str | None:
    said = found.get("identityagent")
    if said is None or said == "SSH_AUTH_SOCK":
        return None
    if said.startswith("$") and not said.startswith("${"):
        return os.environ.get(said[1:], "")
    return "" if said.lower() == "none" else str(_path(said))


def _known_hosts(found: Mapping[str, Any]) -> tuple[Path, ...]:
    user = found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    machine = found.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
    return tuple(_path(word) for word in config_words(f"{user} {machine}") if word.lower() != "none")


def _path(written: str) -> Path:
    """Return a path of the config, unquoted, with `~` and `${NAME}` expanded."""
    named = _VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), written.strip('"'))
    return Path(named).expanduser()
