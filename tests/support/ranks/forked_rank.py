"""One rank in a forked process, and how it ended; what is imported already costs it nothing."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Outcome:
    """How one rank ended."""

    result: Any = None
    error: str = ""
    """Traceback of what it raised."""
    signal: int = 0
    said: bool = True
    """It told its outcome before it ended."""


@dataclass(frozen=True)
class ForkedRank:
    """A rank that runs."""

    pid: int
    pipe: int
    """Where its outcome comes out as JSON."""

    @classmethod
    def start(cls, body: Callable[[], Any]) -> ForkedRank:
        """Fork; the child calls `body`, whose result JSON must be able to say, and ends."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return cls(pid, reader)
        os.close(reader)
        try:
            message = {"result": body()}
        except BaseException:  # noqa: BLE001 - the outcome of the rank, whatever it is
            message = {"error": traceback.format_exc()}
        content = json.dumps(message).encode()
        while content:
            content = content[os.write(writer, content) :]
        # the peers' connections close with the process; destroying a group would wait for them
        os._exit(0)

    def finish(self, deadline: float, seconds: float) -> Outcome:
        """Wait for its end; at `deadline` (monotonic), after `seconds` in all, it is killed."""
        content = b""
        while True:
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(self.pid, signal.SIGKILL)
                content = json.dumps({"error": f"rank hung: killed after {seconds} s"}).encode()
                break
            chunk = os.read(self.pipe, 1 << 16)
            if not chunk:
                break
            content += chunk
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        message = json.loads(content) if content else {}
        killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return Outcome(message.get("result"), message.get("error", ""), killed_by, bool(message))
