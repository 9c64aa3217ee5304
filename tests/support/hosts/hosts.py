"""Several hosts on one machine, each with its own network, processes, home and sshd: hosts.sh from Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from support.hosts.host_networks import (
    NoHostsError,
    clear,
    folder_of,
    prefix_of,
    remove_all_stale,
    run_command,
    run_script,
    take_network,
    why_no_hosts,
)

__all__ = ["PASSPHRASE", "PASSWORD", "NoHostsError", "TestHosts", "make_key", "why_no_hosts"]

PASSWORD = "pass word '$(id)' ünïcode"  # noqa: S105 - of hosts that live for one test
PASSPHRASE = 'a "phrase" of $HOME'  # noqa: S105
FAKETIME = tuple(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class TestHosts:
    """`count` hosts, numbered from 1, from `with` to its end.

    What test runs that died have left behind is removed at the start.

    Args:
        count: how many, up to 200.
        home_size: size of each host's home, as mount has it (`8m`); None for the disk's.
        shared_home: all hosts have one home, as over NFS.

    Raises:
        NoHostsError: at `with`, where this machine does not let us make hosts.
    """

    __test__ = False  # for pytest: no test in spite of its name

    def __init__(self, count: int, *, home_size: str | None = None, shared_home: bool = False) -> None:
        self.count = count
        self._options = {"HOME_SIZE": home_size or "", "SHARED_HOME": str(int(shared_home))}
        self._shared_home = shared_home
        self._lock: IO[str] | None = None
        self._network = 0

    def __enter__(self) -> Self:
        why = why_no_hosts()
        if why:
            raise NoHostsError(why)
        remove_all_stale()
        self._network, self._lock = take_network()
        try:
            self._script("up", str(self.count))
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._take_down()

    @property
    def folder(self) -> Path:
        """Where all that belongs to these hosts lies."""
        return folder_of(self._network)

    @property
    def here(self) -> str:
        """This machine's address on the hosts' network."""
        return f"10.77.{self._network}.1"

    @property
    def key(self) -> Path:
        """A private key without a passphrase that logs in everywhere."""
        return self.folder / "client_key"

    @property
    def known_hosts(self) -> str:
        """A known_hosts file's text with the keys that the hosts had at first."""
        return (self.folder / "known_hosts").read_text()

    def trust(self, home: Path) -> None:
        """Write the hosts' keys into the known_hosts of the Torchdeck home at `home`."""
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / "known_hosts").write_text(self.known_hosts)

    def name(self, host: int) -> str:
        """Its host name, which all hosts (not this machine) resolve."""
        return f"{prefix_of(self._network)}{host}"

    def address(self, host: int) -> str:
        """Its address."""
        return f"10.77.{self._network}.{10 + host}"

    def interface(self, host: int) -> str:  # noqa: ARG002 - the same for all, as it happens
        """Its network interface."""
        return "eth0"

    def home(self, host: int) -> Path:
        """Its root's home, as the host sees it; from here the same folder unless `home_size` was given."""
        return self.folder / "shared-home" if self._shared_home else self._of(host) / "home"

    @property
    def homes_are_seen_here(self) -> bool:
        """A home that is a file system of its own is not."""
        return not self._options["HOME_SIZE"]

    def entry(self, host: int, **more: Any) -> dict[str, Any]:
        """A table of nodes.toml for it, with this Python; `more` adds to it or replaces."""
        table: dict[str, Any] = {
            "address": self.address(host),
            "user": "root",
            "key": str(self.key),
            "python": sys.executable,
        }
        return {key: value for key, value in {**table, **more}.items() if value is not None}

    def nodes_toml(self) -> str:
        """A nodes.toml with all hosts, called `node1`, `node2`, …"""
        import tomlkit

        node_inventory: dict[str, Any] = {"version": 1, "nodes": {}}
        node_inventory["nodes"] = {f"node{host}": self.entry(host) for host in range(1, self.count + 1)}
        return tomlkit.dumps(node_inventory)

    def enter(
        self, host: int, argv: Sequence[str], *, limit: float = 20.0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as on the host, not over SSH; it must succeed."""
        return subprocess.run(
            [*self.enter_argv(host), *argv],
            check=True,
            capture_output=True,
            text=True,
            timeout=limit,
            env=None if env is None else dict(env),
        )

    def enter_argv(self, host: int) -> list[str]:
        """What to put before a command to run it as on the host."""
        init = (self._of(host) / "init.pid").read_text().strip()
        return ["nsenter", "-t", init, "--mount", "--uts", "--ipc", "--net", "--pid", "--"]

    def pids(self, host: int) -> list[int]:
        """The processes on the host, by their numbers here."""
        found = run_command(["ip", "netns", "pids", self.name(host)])
        return [int(pid) for pid in found.split()]

    def cut(self, host: int) -> None:
        """Take the host's link down, as pulling the cable does."""
        run_command(["ip", "link", "set", f"{prefix_of(self._network)}-v{host}", "down"])

    def heal(self, host: int) -> None:
        """Take the link up again."""
        run_command(["ip", "link", "set", f"{prefix_of(self._network)}-v{host}", "up"])

    def power_off(self, host: int) -> None:
        """End all its processes at once."""
        self._script("power-off", str(host))

    def lose_power(self, host: int) -> None:
        """As `power_off`, and its network says nothing of it: no other host sees a connection end."""
        self.cut(host)
        self.power_off(host)

    def boot(self, host: int) -> None:
        """Start it again, with a new boot id."""
        self.heal(host)
        self._script("boot", str(host))

    def block_port(self, host: int, ports: str, *, sender: str | None = None) -> None:
        """A firewall on the host drops what comes in by TCP for a port, `"22"` or a range `"1024-65535"`.

        Args:
            host: which.
            ports: one port or a range.
            sender: only what comes from this address.
        """
        rule = [*(() if sender is None else ("ip", "saddr", sender)), "tcp", "dport", ports, "drop"]
        chain = ["input", "{ type filter hook input priority 0 ; }"]
        for command in (
            ["add", "table", "inet", "tests"],
            ["add", "chain", "inet", "tests", *chain],
            ["add", "rule", "inet", "tests", "input", *rule],
        ):
            run_command(["ip", "netns", "exec", self.name(host), "nft", *command])

    def unblock_ports(self, host: int) -> None:
        """Without the firewall again."""
        run_command(["ip", "netns", "exec", self.name(host), "nft", "delete", "table", "inet", "tests"])

    def slow_down(self, host: int, rate: str, *, target: int | None = None, others: str = "40gbit") -> None:
        """What the host sends, to host `target` or to all, is limited to `rate`, such as `20mbit`; what it
        sends to others than `target`, to `others`.

        A class of htb that nft selects by the packet's priority; other packets pass unlimited.
        """
        inside = ["ip", "netns", "exec", self.name(host)]
        chosen = "10" if target is None else "20"
        for command in (
            ["tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", chosen],
            [*["tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:10"], "htb", "rate", rate],
            [
                *["tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:20"],
                "htb",
                "rate",
                others,
            ],
        ):
            run_command([*inside, *command])
        if target is not None:
            chain = "{ type filter hook output priority 0 ; }"
            rule = f"ip daddr {self.address(target)} meta priority set 1:10"
            for words in (
                ["add", "table", "inet", "slow"],
                ["add", "chain", "inet", "slow", "output", chain],
                ["add", "rule", "inet", "slow", "output", *rule.split()],
            ):
                run_command([*inside, "nft", *words])

    def redirect(self, host: int, target: int, port: int, here: int) -> None:
        """What the host opens from now on to `port` of host `target` comes to port `here` of this machine."""
        rule = f"ip daddr {self.address(target)} tcp dport {port} dnat to {self.here}:{here}"
        for command in (
            ["add", "table", "ip", "detour"],
            ["add", "chain", "ip", "detour", "output", "{ type nat hook output priority -100 ; }"],
            ["add", "rule", "ip", "detour", "output", *rule.split()],
        ):
            run_command(["ip", "netns", "exec", self.name(host), "nft", *command])

    def allow_passwords(self, host: int, password: str = PASSWORD) -> str:
        """Let root log in by password there; the password."""
        hashed = run_command(["openssl", "passwd", "-6", "-stdin"], password + "\n").strip()
        shadow = self._of(host) / "shadow"
        text = "".join(
            f"root:{hashed}:19000:0:99999:7:::\n" if line.startswith("root:") else line
            for line in shadow.read_text().splitlines(keepends=True)
        )
        with shadow.open("r+") as file:  # in its place: the host has this very file mounted
            file.truncate()
            file.write(text)
        self.configure(host, "PasswordAuthentication yes")
        return password

    def key_with_passphrase(self, passphrase: str = PASSPHRASE) -> tuple[Path, str]:
        """A private key that logs in everywhere and needs a passphrase, and the passphrase."""
        path = self.folder / "locked_key"
        if not path.exists():
            make_key(path, passphrase)
            for host in range(1, self.count + 1):
                self.authorize(host, path)
        return path, passphrase

    def authorize(self, host: int, key: Path) -> None:
        """Let the key at `key` log in there too."""
        with (self._of(host) / "authorized_keys").open("a") as file:
            file.write(key.with_name(f"{key.name}.pub").read_text())

    def change_host_key(self, host: int) -> None:
        """Give the host another key than `known_hosts` has."""
        self._script("host-key", str(host))
        self._script("restart-sshd", str(host))

    def shift_clock(self, host: int, seconds: float) -> None:
        """What sshd starts there from now on sees a clock that is `seconds` ahead.

        By libfaketime, as one kernel has one clock. Monotonic clocks and times of files stay what they are.
        """
        if not FAKETIME:
            raise NoHostsError("libfaketime is not installed")
        variables = (
            f"LD_PRELOAD={FAKETIME[0]} FAKETIME={seconds:+f} FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1"
        )
        self.configure(host, f"SetEnv TMPDIR={self._of(host) / 'tmp'} {variables}")

    def configure(self, host: int, *lines: str) -> None:
        """Put lines before the rest of its sshd_config, where they count, and start its sshd again."""
        extra = self._of(host) / "extra"
        extra.write_text("".join(f"{line}\n" for line in lines) + extra.read_text())
        self._script("write-config", str(host))
        self._script("restart-sshd", str(host))

    def sshd_log(self, host: int) -> str:
        """What its sshd has said so far."""
        return (self._of(host) / "sshd.log").read_text()

    def _of(self, host: int) -> Path:
        return self.folder / f"host{host}"

    def _script(self, *words: str) -> None:
        run_script(self._network, *words, **self._options)

    def _take_down(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            with lock:
                clear(self._network)


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """Make a key pair at `path` and `path`.pub; gives `path`."""
    run_command(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path), "-C", "test"])
    return path
