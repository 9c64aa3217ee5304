"""The networks that tests' hosts live in: one for each that is up, told from those of test runs that died."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

SCRIPT = Path(__file__).with_name("hosts.sh")
ROOT = Path("/tmp/torchdeck-test-hosts")
"""Wherever TMPDIR points to: names of networks are one set for the whole machine."""
MOST_NETWORKS = 200
"""Of 10.77.1.0/24 and on."""


class NoHostsError(Exception):
    """Hosts cannot be made on this machine; the message says why."""


@cache
def why_no_hosts() -> str:
    """Why this machine does not let us make hosts; empty when it does."""
    if os.geteuid() != 0:
        return "hosts in namespaces need root"
    needed = {
        "ip": "iproute2",
        "nft": "nftables",
        "/usr/sbin/sshd": "openssh-server",
        "ssh-keygen": "openssh-client",
    }
    missing = [package for command, package in needed.items() if shutil.which(command) is None]
    if missing:
        return f"hosts need the packages {', '.join(missing)}"
    network, lock = take_network()
    with lock:
        try:
            run_script(network, "probe")
        except NoHostsError as error:
            return f"this machine gives no namespaces or networks: {error}"
    return ""


def take_network() -> tuple[int, IO[str]]:
    """A network that no living process uses, and the lock that says so for as long as it is open."""
    for network in range(1, MOST_NETWORKS + 1):
        lock = _lock(network)
        if lock is not None:
            _remove_stale(network)
            return network, lock
    raise NoHostsError(f"all {MOST_NETWORKS} networks are in use")


def remove_all_stale() -> None:
    """Take down what dead test runs left behind."""
    for network in sorted(int(folder.name) for folder in ROOT.glob("*") if folder.name.isdecimal()):
        lock = _lock(network)
        if lock is not None:
            with lock:
                _remove_stale(network)


def _remove_stale(network: int) -> None:
    if folder_of(network).exists():
        clear(network)


def _lock(network: int) -> IO[str] | None:
    """The open and locked lock file of a network; None when someone living has it."""
    ROOT.mkdir(mode=0o700, exist_ok=True)
    lock = (ROOT / f"{network}.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def clear(network: int) -> None:
    """Take down what is on a network, and remove its files."""
    run_script(network, "down")
    shutil.rmtree(folder_of(network), ignore_errors=True)


def folder_of(network: int) -> Path:
    """Where all that belongs to a network lies."""
    return ROOT / str(network)


def prefix_of(network: int) -> str:
    """What the names of its hosts begin with."""
    return f"tdt{network}h"


def run_script(network: int, *words: str, **variables: str) -> None:
    """Run hosts.sh for a network. Raises NoHostsError."""
    settings = {
        "HOSTS_DIR": str(folder_of(network)),
        "HOSTS_PREFIX": prefix_of(network),
        "HOSTS_NET": f"10.77.{network}",
        **variables,
    }
    run_command([str(SCRIPT), *words], env={**os.environ, **settings})


def run_command(argv: Sequence[str], given: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """What the command printed.

    Raises:
        NoHostsError: it failed; with what it said.
    """
    done = subprocess.run(
        argv, input=given, check=False, capture_output=True, text=True, timeout=120, env=env
    )
    if done.returncode != 0:
        raise NoHostsError(f"{' '.join(argv[:3])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
