"""A real sshd on the loopback address that forwards X, as a machine far away would."""

import getpass
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.system.free_port import free_port
from support.waiting import wait_until

SEPARATION = Path("/run/sshd")
"""An empty folder without which sshd does not start as root."""


def sshd_program() -> str | None:
    """Where sshd is, which has to be called by its whole path; it is in no user's PATH."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def missing_programs() -> list[str]:
    """What forwarding needs and this machine does not have."""
    needed = {"sshd": sshd_program(), **{name: shutil.which(name) for name in ("ssh", "ssh-keygen", "xauth")}}
    return [name for name, path in needed.items() if path is None]


@dataclass(frozen=True)
class ForwardingHost:
    """A server that this user can log in to, with keys made for it."""

    port: int
    folder: Path

    def command(self, command: list[str], environment: dict[str, str], *options: str) -> list[str]:
        """What runs `command` there, in the same folder; its display is the one that ssh brings.

        Args:
            command: program and arguments.
            environment: variables for it; a login has few.
            options: of ssh, such as `-Y`.
        """
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), *command]
        there = f"cd {shlex.quote(str(self.folder))} && exec {shlex.join(words)}"
        return ["ssh", "-F", str(self.folder / "client"), *options, "here", there]


@contextmanager
def forwarding_host(folder: Path) -> Iterator[ForwardingHost]:
    """The server; its keys and files lie in `folder`."""
    port = free_port()
    for name in ("host", "user"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True, timeout=30)
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "client").write_text(_client(folder, port))
    (folder / "server").write_text(_server(folder, port))
    (folder / "forwarded").touch()  # else xauth tells of a new file
    if os.geteuid() == 0:
        SEPARATION.mkdir(mode=0o755, exist_ok=True)  # and left there: other tests' sshd may use it by the end
    program = sshd_program()
    assert program is not None
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "server")], stderr=log)
    try:
        wait_until(lambda: server.poll() is not None or _listens(port), 10, "sshd")
        assert server.poll() is None, (folder / "sshd.log").read_text()
        yield ForwardingHost(port, folder)
    finally:
        server.terminate()
        server.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def _client(folder: Path, port: int) -> str:
    return f"""\
Host here
  HostName 127.0.0.1
  Port {port}
  User {getpass.getuser()}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile none
  BatchMode yes
  ConnectTimeout 20
  LogLevel ERROR
"""


def _server(folder: Path, port: int) -> str:
    """XAUTHORITY keeps it from writing into this user's own file of cookies."""
    return f"""\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserRC no
X11Forwarding yes
X11UseLocalhost yes
X11DisplayOffset 50
XAuthLocation {shutil.which("xauth")}
SetEnv XAUTHORITY={folder}/forwarded
"""
