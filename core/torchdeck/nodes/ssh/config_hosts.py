"""Hosts of an SSH config as nodes: the inventory entry for each Host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.problems import ConfigError
from torchdeck.nodes.inventory.problems import made_entry
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.ssh.config_commands import CommandGate
from torchdeck.nodes.ssh.config_file import SYSTEM_CONFIG, SshConfig
from torchdeck.trust.trust_list import TrustList


@dataclass(frozen=True)
class ConfigHost:
    """One Host of the SSH config."""

    name: str
    where: str
    """Its destination, or why it cannot be a node."""
    entry: NodeEntry | None


def hosts_of(file: Path, home: Path) -> list[ConfigHost]:
    """Return the hosts that an SSH config names, in its order; patterns are left out.

    Args:
        file: the config, which exists. In the user's own config the address of a node is the name of the
            Host, so
            that all settings under it still apply.
        home: TORCHDECK_HOME, which says whether commands of a file that is not the user's own may run.

    Raises:
        TargetError: it cannot be read or parsed, or would run a command and is not trusted.
    """
    config = SshConfig((file, SYSTEM_CONFIG), CommandGate(TrustList(home)))
    users_own = file in SshConfig.of_user().files
    names = SshConfig((file,)).host_names()
    return [_host(name, config.lookup(name), users_own=users_own) for name in names]


def _host(name: str, settings: dict[str, Any], *, users_own: bool) -> ConfigHost:
    """Return the node for a Host: from the user's own file its name alone, as all other settings still apply
    there.

    Args:
        name: name of the Host.
        settings: settings that apply to it.
        users_own: ssh reads the file by itself, so that connecting will find the Host again.
    """
    jump = settings.get("proxyjump") or ""
    hops = [] if jump.lower() == "none" else [hop.strip() for hop in jump.split(",") if hop.strip()]
    port = settings.get("port")
    only_there = [key for key in ("proxycommand", "hostkeyalias") if settings.get(key)]
    if only_there and not users_own:
        return ConfigHost(name, f"cannot be a node: its {only_there[0]} counts in ~/.ssh/config alone", None)
    keys = settings.get("identityfile", [None])
    by_jump = bool(hops) and "proxycommand" not in settings
    values = {
        "address": settings.get("hostname", name),
        "key": keys[0],
        "user": settings.get("user"),
        "port": int(port) if port is not None and port.isdecimal() else None,
        "jump": hops if by_jump else [],
    }
    if users_own:
        values = {"address": name}
    try:
        entry = made_entry(name, {key: value for key, value in values.items() if value})
    except ConfigError as error:
        first = error.problems[0]
        return ConfigHost(name, f"cannot be a node: {first.wrong}; right would be {first.right}", None)
    user = f"{settings['user']}@" if settings.get("user") else ""
    at = f"{user}{settings.get('hostname', name)}" + (f":{port}" if port else "")
    through = f" through {' → '.join(hops)}" if by_jump else ""
    return ConfigHost(name, at + (" by a ProxyCommand" if settings.get("proxycommand") else through), entry)
