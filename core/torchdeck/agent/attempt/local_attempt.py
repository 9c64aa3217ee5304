"""One attempt on this node: starts the shim, or finds it again, and sees how torchrun ends. Never blocks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torchdeck.agent.attempt.handover import NOTHING, Handover
from torchdeck.agent.gang import events
from torchdeck.agent.processes.shim import start_shim
from torchdeck.agent.ranks.failures import read_tail
from torchdeck.agent.store_order import VARIABLE, StoreOrder, StoreStrangers, key_of
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.contract.processes import (
    UMASK_VARIABLE,
    ProcessIdentity,
    descendants,
    without_run_variables,
)
from torchdeck.contract.rank_layout import AttemptNodeLayout

LAUNCH_LIMIT = 60.0
"""Seconds from the shim's start until it must have started torchrun."""
LINGER_LIMIT = 20.0
"""Seconds in which a torchrun of one node ends after all of its ranks; it takes a tenth of one."""
EXIT_FILE_LIMIT = 2.0
"""Seconds after torchrun's end in which a living shim writes its exit status."""
TORCHRUN = "/torchdeck/distributed/torchrun.py"
_PORT_LOST = re.compile(r"EADDRINUSE|[Aa]ddress already in use")


class LocalAttempt:
    """torchrun and its shim, from outside.

    Attributes:
        shim: identity of the shim, once known.
        torchrun: its identity, once known.
        strangers: connections that its store refused.
        code: torchrun's exit code once it has ended and is known, 128 + n for signal n.
    """

    def __init__(
        self,
        number: int,
        node: NodePlan,
        attempt: AttemptLayout,
        ranks: Sequence[int],
        handover: Handover = NOTHING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = number
        self.attempt = attempt
        self.ranks = tuple(ranks)
        self.files: AttemptNodeLayout = attempt.node(node.name)
        self.holder: ProcessIdentity | None = None
        self.torchrun: ProcessIdentity | None = None
        self.code: int | None = None
        self.strangers = StoreStrangers(self.files.strangers)
        self._node = node
        self._handover = handover
        self._clock = clock
        self._holder_code: Callable[[], int | None] = lambda: None
        self._started = 0.0
        self._launched = False
        self._ended = False
        self._gone_since: float | None = None
        self._alone_since: float | None = None
        self._outstayed = False
        self._descriptors: dict[str, int] = {}

    @property
    def descriptors(self) -> list[int]:
        """pidfds that become readable if torchrun or its shim ends."""
        return list(self._descriptors.values())

    @property
    def urgent(self) -> bool:
        """Something is awaited that no descriptor announces."""
        return not self._ended and (not self._launched or self._gone_since is not None)

    @property
    def torchrun_alive(self) -> bool:
        return self._launched and not self._ended

    def start(self, leases: Sequence[int], agent: Sequence[str]) -> None:
        """Start the shim with the order to start torchrun.

        Args:
            leases: open descriptors of device leases, for the shim to keep.
            agent: command line of an agent for this node, if this one dies.

        Raises:
            OSError: the shim cannot be started.
            MissingSecretError: a secret of the ranks was not handed over.
        """
        secrets = self._handover.values(self._node.secrets)
        self.files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        run = self.attempt.run
        environ = {**run.home.compile_cache, **without_run_variables(os.environ)}
        store = self._store_order(run.root.name)
        told = {name: os.environ[name] for name in (UMASK_VARIABLE,) if name in os.environ}
        if store:
            told[VARIABLE] = "1"
        order = {
            "argv": list(self._node.argv),
            "env": {**compose_environment(environ, self._node), **secrets, **told},
            "cwd": self._node.working_dir,
            "handover": self._handover.line().decode(),
            "store": store,
        }
        arguments = ["--run-dir", str(run.root), "--node", self._node.name]
        arguments += ["--attempt", str(self.number), "--agent-pid", str(os.getpid())]
        self._started = self._clock()
        self._holder_code = start_shim(arguments, order, leases, agent)

    def _store_order(self, run_id: str) -> str:
        """Return the order that our torchrun reads; another program might give it to its ranks."""
        if not any(word.endswith(TORCHRUN) for word in self._node.argv[:2]):
            return ""
        key = key_of(self._handover.token, run_id, self.number)
        return StoreOrder(key, self.files.strangers).line().decode()

    def adopt(self) -> None:
        """Take over an attempt that an earlier agent started."""
        self._started = self._clock() - LAUNCH_LIMIT
        self._read_holder_file()

    def poll(self, node: str) -> list[events.Event]:
        """Return the events since the last call."""
        self._holder_code()  # it is reaped
        if self._ended:
            return []
        if not self._launched:
            return self._poll_launch(node)
        happened: list[events.Event] = []
        if self._holder_is_gone():
            happened.append(events.HolderLost(node, self.number))
        if self.torchrun is None or not self.torchrun.is_alive():
            happened += self._torchrun_gone(node)
        return happened

    @property
    def is_plain(self) -> bool:
        """Whether it is one plain process, which torchrun did not start."""
        return not self._node.torchrun

    def terminate(self) -> int:
        """Send SIGTERM to torchrun, for it and its ranks, or to the plain process; how many got it."""
        if self.torchrun is None:
            return 0
        with contextlib.suppress(OSError):  # before the signal: see rank_holder.sh
            self.files.ending.touch(mode=0o600)
        if not self.is_plain:
            return int(self.torchrun.send(signal.SIGTERM))
        # not to what the program has started: it decides what the signal means for them
        return sum(process.send(signal.SIGTERM) for process in descendants(self.torchrun.pid)[:1])

    def end_if_alone(self, exits: Mapping[int, int], now: float, linger: float = LINGER_LIMIT) -> bool:
        """Send SIGKILL to a torchrun that hangs though all its ranks have ended; return True if it was sent.

        Nothing else would ever end such a run. Its ranks then tell how it ended.
        """
        if not self.torchrun_alive or self.torchrun is None or len(exits) < len(self.ranks):
            self._alone_since = None
            return False
        if self._alone_since is None:
            self._alone_since = now
        if self._outstayed or now - self._alone_since < linger:
            return False
        self._outstayed = True
        return self.torchrun.send(signal.SIGKILL)

    def ranks_say(self, exits: Mapping[int, int]) -> int | None:
        """Return torchrun's exit code by its ranks' if it was not seen: 0 if all ended with 0, else
        unknown.
        """
        return 0 if len(exits) == len(self.ranks) and not any(exits.values()) else None

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _poll_launch(self, node: str) -> list[events.Event]:
        exited = read_json(self.files.exit)
        why = exited.get("why") if isinstance(exited, dict) else None
        if isinstance(why, str):
            return self._failed(node, why)
        if self._read_holder_file():
            return [events.AttemptLaunched(node, self.number)]
        if self._holder_code() not in (None, 1):
            return self._failed(node, f"the shim ended before torchrun started (code {self._holder_code()})")
        if self._clock() - self._started > LAUNCH_LIMIT:
            return self._failed(node, f"the shim did not start torchrun within {LAUNCH_LIMIT:.0f} s")
        return []

    def _failed(self, node: str, why: str) -> list[events.Event]:
        self._ended = True
        return [events.LaunchFailed(node, self.number, f"{why}; see {self.files.root}")]

    def _read_holder_file(self) -> bool:
        content = read_json(self.files.holder)
        if not isinstance(content, dict) or content.get("torchrun") is None:
            return False
        self.holder = ProcessIdentity.from_json(content.get("holder"))
        self.torchrun = ProcessIdentity.from_json(content.get("torchrun"))
        self._launched = True
        self._watch("holder", self.holder)
        self._watch("torchrun", self.torchrun)
        return True

    def _watch(self, name: str, identity: ProcessIdentity | None) -> None:
        if identity is not None and identity.is_alive():
            with contextlib.suppress(ProcessLookupError):
                self._descriptors[name] = os.pidfd_open(identity.pid)

    def _holder_is_gone(self) -> bool:
        if "holder" not in self._descriptors or (self.holder is not None and self.holder.is_alive()):
            return False
        os.close(self._descriptors.pop("holder"))
        return True

    def _torchrun_gone(self, node: str) -> list[events.Event]:
        now = self._clock()
        if self._gone_since is None:
            self._gone_since = now
            if "torchrun" in self._descriptors:
                os.close(self._descriptors.pop("torchrun"))
        content = read_json(self.files.exit)
        written = content.get("code") if isinstance(content, dict) else None
        if not isinstance(written, int):
            if "holder" in self._descriptors and now - self._gone_since < EXIT_FILE_LIMIT:
                return []
            written = None
        if self._outstayed:
            written = None  # the signal was ours
        self.code, self._ended = written, True
        lost = (
            written not in (0, None)
            and not self._any_rank()
            and _PORT_LOST.search(read_tail(self.files.torchrun_log))
        )
        found: list[events.Event] = [events.PortLost(node, self.number)] if lost else []
        # whether the ranks did all their steps is for the agent to add: it reads their files
        return [*found, events.TorchrunExited(node, self.number, self.code, completed=False)]

    def _any_rank(self) -> bool:
        return any(self.attempt.rank(rank).root.exists() for rank in self.ranks)


def compose_environment(environ: Mapping[str, str], node: NodePlan) -> dict[str, str]:
    """`environ` without what the node unsets (a name ending in `*` is a prefix), with what it sets over it.

    PATH begins with the folder of the interpreter, as in its activated environment, unless the plan sets it:
    a program finds the tools that were installed beside it.
    """
    names = {name for name in node.unset if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in node.unset if name.endswith("*"))
    kept = {
        name: value
        for name, value in environ.items()
        if name not in names and not (prefixes and name.startswith(prefixes))
    }
    python, path = Path(node.command[0]), kept.get("PATH", os.defpath)
    if python.is_absolute() and path.partition(os.pathsep)[0] != str(python.parent):
        kept["PATH"] = f"{python.parent}{os.pathsep}{path}"
    return {**kept, **node.env}
