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

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.nodes.ssh.config_commands import MATCH_EXEC, CommandGate, check_names
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.quick_paramiko import import_paramiko, run_commands

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
                ProxyCommand
                that may not run is replaced by the reason, after `config_commands.REFUSED`.
        """
        import_paramiko()
        from paramiko.ssh_exception import SSHException

        check_names(host, host, given.get("User") or getpass.getuser())
        first = "Host *\n" + "".join(f"{key} {value}\n" for key, value in given.items())
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
        return "".join(f"{key} {value}\n" for key, value in lines)

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
                file.name, f"{file} includes {pattern}: wildcards may stand in {_MOST_WILDCARDS} of its parts"
            )
        # as in a shell, a user unknown to this machine stays as written
        whole = os.path.join(folder, os.path.expanduser(pattern))  # noqa: PTH111, PTH118 - Path raises there
        for path in sorted(glob(whole)):  # noqa: PTH207 - may be absolute
            yield Path(path)


def _is_about(block: tuple[str, str], host: str) -> bool:
    key, value = block
    return "identitiesonly" in parsed_config(f"{key} {value}\nIdentitiesOnly yes\n").lookup(host)


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
    import_paramiko()
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

    if "exec" in text.casefold():
        run_commands()
    return ParsedConfig.from_text(text)
