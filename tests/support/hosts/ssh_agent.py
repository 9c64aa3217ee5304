"""A real ssh-agent with keys in it, for one test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.waiting import wait_until


@contextmanager
def ssh_agent(folder: Path, keys: Sequence[Path]) -> Iterator[Path]:
    """The socket of an agent that holds `keys`, which have no passphrases, in this order."""
    path = folder / "agent.sock"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as agent:
        try:
            wait_until(path.exists, 20, "the agent's socket")
            for key in keys:
                subprocess.run(
                    ["ssh-add", "-q", str(key)],
                    check=True,
                    timeout=20,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"SSH_AUTH_SOCK": str(path), "PATH": "/usr/bin:/bin"},
                )
            yield path
        finally:
            agent.terminate()
