"""The user's SSH config: its text with Include resolved, the settings of one host, the hosts it names."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from torchdeck.config.problems import ConfigError
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.nodes.inventory.problems import made_entry
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.ssh.config_commands import MATCH_EXEC, CommandGate, check_names, run_match_exec
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.trust.trust_list import TrustList

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
MOST_INCLUDES = 16
"""Maximum nesting of includes, as in OpenSSH."""
MOST_BYTES = 1 << 20
"""Maximum bytes of one file."""
MOST_FILES = 256
"""Maximum files of one config with all its includes: files that include each other twice would never end."""
MOST_SETTINGS = 20_000
"""Maximum settings of one config with all its includes."""
_MOST_WILDCARDS = 2
"""Maximum path components with wildcards in an include; `/*/*/*/*` would search the whole disk."""
_SETTING = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.+)")
_TOKEN = re.compile(r"""(?:[^"'\s]|"[^"]*"|'[^']*')+|(?P<gap>\s+)(?P<comment>\#)?""")
"""A word, or the gap between words; a `#` at the beginning of a word begins a comment."""
_COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
"""Settings whose values are the rest of their lines, whatever it contains."""


@dataclass(frozen=True)
class SshConfig:
    """The config files in effect, the first one first: of two values for a host the first counts."""

    files: tuple[Path, ...]
    gate: CommandGate = field(default_factory=CommandGate)
    """Decides which commands of files that are not the user's own may run."""

    @classmethod
    def of_user(cls) -> SshConfig:
        """Return the files that `ssh` reads."""
        return cls(_users_own())

    def lookup(self, host: str, **given: str) -> dict[str, Any]:
        """Return the settings for `host`, by keys in lower case, with tokens and `~` expanded.

        Args:
            host: host as typed after `ssh`.
            given: settings that take precedence over the files, like options of the command line.

        Raises:
            TargetError: a file cannot be read or parsed, or has a `Match exec` that may not run. A
                ProxyCommand that may not run is replaced by the reason, after `config_commands.REFUSED`.
        """
        from paramiko.ssh_exception import SSHException

        check_names(host, host, given.get("User") or getpass.getuser())
        first = "Host *\n" + "".join(map(_line, given.items()))
        try:
            return dict(parsed_config(first + self._text(host)).lookup(host))
        except (SSHException, ImportError, KeyError, ValueError) as error:
            raise TargetError(host, f"the SSH config cannot be understood: {error}") from error

    def host_names(self) -> list[str]:
        """Return the names after Host, in order; patterns are left out.

        Raises:
            TargetError: a file cannot be read.
        """
        names = []
        for key, value in self._all_lines:
            if key == "host":
                names += [word for word in config_words(value) if not re.search(r"[*?!]", word)]
        return list(dict.fromkeys(names))

    @cached_property
    def _all_lines(self) -> list[tuple[str, str]]:
        return self._settings(None)

    def _text(self, host: str) -> str:
        """Return all files as one text; an Include inside a block is resolved only if the block applies to
        `host`.
        """
        if not any(key == "include" for key, _ in self._all_lines):
            lines = self._all_lines
        else:
            lines = self._settings(host)
        for key, value in lines:
            if key == MATCH_EXEC:
                raise TargetError(host, value)
        return "".join(map(_line, lines))

    def _settings(self, host: str | None) -> list[tuple[str, str]]:
        own = _users_own()
        budget = _Budget()
        found = [_settings(file, host, self.gate, budget, own=file in own) for file in self.files]
        return [setting for settings in found for setting in settings]


def _users_own() -> tuple[Path, ...]:
    return (Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG)


class _Budget:
    """Remaining limits for reading a config."""

    def __init__(self) -> None:
        self.files, self.settings = MOST_FILES, MOST_SETTINGS

    def spend(self, file: Path, settings: int) -> None:
        """Count one file more, with so many settings. Raises TargetError if that exceeds a limit."""
        self.files -= 1
        self.settings -= settings
        if self.files < 0:
            raise TargetError(file.name, f"{file}: the SSH config includes more than {MOST_FILES} files")
        if self.settings < 0:
            raise TargetError(file.name, f"{file}: the SSH config has more than {MOST_SETTINGS} settings")


def _settings(
    file: Path, host: str | None, gate: CommandGate, budget: _Budget, *, own: bool, depth: int = MOST_INCLUDES
) -> list[tuple[str, str]]:
    """Return the settings of one file with those of its includes in their places; all of them without a host.

    Includes stay in the list, as settings that a parser ignores.
    """
    found: list[tuple[str, str]] = []
    block = ("host", "*")
    found.append(block)
    lines = list(_lines(file))
    budget.spend(file, len(lines))
    for key, value in gate.checked(iter(lines), file, own=own):
        if key == MATCH_EXEC and host is not None:
            raise TargetError(host, value)
        if key in ("host", "match"):
            block = (key, value)
        found.append((key, value))
        if key != "include":
            continue
        if depth == 0:
            raise TargetError(host or file.name, f"{file} includes files more than {MOST_INCLUDES} deep")
        if host is None or _is_about(block, host):
            for included in _included(file, value):
                found += _settings(included, host, gate, budget, own=own, depth=depth - 1)
            found.append(block)
    return found


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = read_bounded(file, MOST_BYTES).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise TargetError(file.name, f"{file} cannot be read: {error.strerror}") from error
    for line in text.splitlines():
        match = _SETTING.match(line.strip())
        if match is not None:
            key, value = match.group(1).lower(), match.group(2)
            yield key, value if key in _COMMANDS else _without_comment(value)


def _line(setting: tuple[str, str]) -> str:
    """Return the line of a setting. Its `=` keeps one that begins the value: paramiko skips the first."""
    key, value = setting
    return f"{key}={value}\n"


def _without_comment(value: str) -> str:
    at = 0
    while token := _TOKEN.match(value, at):
        if token["comment"]:
            return value[:at]
        at = token.end()
    return value


def _included(file: Path, value: str) -> Iterator[Path]:
    """Yield the files that an Include names: patterns, relative to the folder of the initial file."""
    folder = (
        SYSTEM_CONFIG.parent if file.is_relative_to(SYSTEM_CONFIG.parent) else Path("~/.ssh").expanduser()
    )
    for pattern in config_words(value):
        if sum(map(has_magic, Path(pattern).parts)) > _MOST_WILDCARDS:
            raise TargetError(
                file.name,
                f"{file} includes {pattern}: wildcards are allowed in at most {_MOST_WILDCARDS} parts "
                "of a path",
            )
        # as in a shell, a user unknown to this machine stays as written
        whole = os.path.join(folder, os.path.expanduser(pattern))  # noqa: PTH111, PTH118 - Path raises there
        for path in sorted(glob(whole)):  # noqa: PTH207 - may be absolute
            yield Path(path)


def _is_about(block: tuple[str, str], host: str) -> bool:
    return "identitiesonly" in parsed_config(f"{_line(block)}IdentitiesOnly yes\n").lookup(host)


def config_words(value: str) -> list[str]:
    """Return the words of a value; one with blanks in it is quoted."""
    try:
        return shlex.split(value)
    except ValueError:
        return value.split()


_SHELL_VALUES = ("match-exec", "proxycommand")
"""paramiko's names of the values that a shell runs."""


def parsed_config(text: str) -> Any:
    """Return a `paramiko.SSHConfig` of `text`.

    Its `lookup` raises TargetError if a command would contain an invalid host or user name.
    """
    from paramiko import SSHConfig

    class ParsedConfig(SSHConfig):
        def _tokenize(self, config: Mapping[str, Any], target_hostname: str, key: str, value: str) -> str:
            """Expand `%h`, `%r` and the like: the only place that sees the names and the command."""
            if key in _SHELL_VALUES:
                user = config.get("user", getpass.getuser())
                check_names(target_hostname, target_hostname, user)
                host = config.get("hostname", target_hostname)
                check_names(target_hostname, host, user, config.get("port", 22))
            filled: str = super()._tokenize(config, target_hostname, key, value)  # type: ignore[misc]  # not in its stubs
            return filled

    run_match_exec()
    return ParsedConfig.from_text(text)


# Hosts of an SSH config as nodes: the inventory entry for each Host.


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
            Host, so that all settings under it still apply.
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
        return ConfigHost(name, f"cannot be a node: its {only_there[0]} works only in ~/.ssh/config", None)
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
        return ConfigHost(name, f"cannot be a node: {first.wrong}; expected {first.right}", None)
    user = f"{settings['user']}@" if settings.get("user") else ""
    at = f"{user}{settings.get('hostname', name)}" + (f":{port}" if port else "")
    through = f" through {' → '.join(hops)}" if by_jump else ""
    return ConfigHost(name, at + (" by a ProxyCommand" if settings.get("proxycommand") else through), entry)
