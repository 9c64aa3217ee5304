"""Sources of facts for a survey: uncached, or cached for a short time."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts, NodeInfo, UvFacts
from torchdeck.contract.layout import Home
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.code.digests import Digests
from torchdeck.launching.facts.code_tree import code_of_run
from torchdeck.launching.facts.model_and_data import OnProgress, read_batch_plan
from torchdeck.launching.gate import Gate
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.nodes.this_machine import probe_local
from torchdeck.runs.home import usual_home

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.probe.probing import Probed

T = TypeVar("T")
SHORTLY = 2.0
"""Seconds for which facts about machine and code are cached."""
A_WHILE = 60.0
"""The same for nodes, which are probed over a network."""
LONG = 300.0
"""Seconds for facts that are read again if their file's time or size changes."""
_KEPT = 32


class FactSources:
    """Uncached sources: every call reads again.

    Args:
        home: TORCHDECK_HOME; Default: the usual one.
        connector: connector for nodes of the node inventory; None: no login is requested.
    """

    def __init__(self, home: Path | None = None, connector: Connector | None = None) -> None:
        self._home = usual_home() if home is None else home
        self._reach = connector
        self.gate = Gate(self._home)
        """Decides what may run."""

    @property
    def connector(self) -> Connector:
        """Return the connector for nodes."""
        if self._reach is None:
            from torchdeck.nodes.connector import Connector

            self._reach = Connector(self._home)
        return self._reach

    def nodes(
        self, names: tuple[str, ...], peers: tuple[str, ...], folders: tuple[str, ...] = ()
    ) -> Mapping[str, Probed]:
        """Return facts of nodes in the inventory, of the disks of `folders` and of the route to `peers`."""
        from torchdeck.nodes.probe.probing import Question, probe_nodes

        node_inventory = self.connector.node_inventory()
        entries = {name: node_inventory.nodes[name] for name in names}
        question = Question(folders=folders, peers=peers)
        looks = probe_nodes(entries, self.connector.connect, question, self.connector.talking)
        return {found.node: found for found in looks}

    def machine(self, name: str) -> NodeInfo:
        """Return this machine, as a node named `name`."""
        return probe_local(name)

    def interpreter(self, path: str | None, *, deepspeed: bool) -> InterpreterFacts:
        """Return facts of the Python at `path`; see `probe_interpreter`. It is not started if it is not
        trusted yet.
        """
        if path is None:
            return self._ask_interpreter(None, deepspeed=deepspeed)
        real = self.gate.admitted_interpreter(path)
        return InterpreterFacts(path) if real is None else self._ask_interpreter(real, deepspeed=deepspeed)

    def _ask_interpreter(self, path: str | None, *, deepspeed: bool) -> InterpreterFacts:
        return probe_interpreter(path, deepspeed=deepspeed)

    def environments(
        self, config: RunConfig, interpreters: Mapping[str, InterpreterFacts], uv: Mapping[str, UvFacts]
    ) -> tuple[dict[str, InterpreterFacts], tuple[Problem, ...]]:
        """Return the interpreters with environments made by uv; see `with_environments`. `uv` is that of
        other nodes.
        """
        from torchdeck.agent.environments.make import uv_facts
        from torchdeck.launching.facts.planned_environments import with_environments

        return with_environments(config, interpreters, uv, uv_facts(Home(self._home)))

    def code(self, config: RunConfig, folder: Path) -> tuple[CodeTree, tuple[str, ...]]:
        """Return the user's code below `folder`, and warnings; see `code_of_run`."""
        return code_of_run(config, folder, self._home)

    def batch_plan(
        self, config: RunConfig, on_progress: OnProgress | None
    ) -> tuple[BatchPlan | None, tuple[Problem, ...]]:
        """Return the batch plan that `config` names, and its problems."""
        return read_batch_plan(config, on_progress)


class CachedFactSources(FactSources):
    """Caches facts for a while, for callers that survey at every edit of a run file. Thread-safe.

    Args:
        clock: seconds.
        home: TORCHDECK_HOME; Default: the usual one.
        connector: connector for nodes of the node inventory; None: no login is requested.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        home: Path | None = None,
        connector: Connector | None = None,
    ) -> None:
        super().__init__(home, connector)
        self._digests = lru_cache(_KEPT)(Digests)
        self._clock = clock
        self._seen: OrderedDict[Hashable, tuple[float, object]] = OrderedDict()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._seen.clear()

    def machine(self, name: str) -> NodeInfo:
        return self._remembered(("machine", name), SHORTLY, lambda: probe_local(name))

    def _ask_interpreter(self, path: str | None, *, deepspeed: bool) -> InterpreterFacts:
        key = ("interpreter", path, deepspeed, None if path is None else _stamp(_found(path)))
        return self._remembered(key, LONG, lambda: probe_interpreter(path, deepspeed=deepspeed))

    def code(self, config: RunConfig, folder: Path) -> tuple[CodeTree, tuple[str, ...]]:
        run = config.run
        key = ("code", folder, run.recipe, run.script, run.sync, config.checkpoint.directory)

        def look() -> tuple[CodeTree, tuple[str, ...]]:
            return code_of_run(config, folder, self._home, digests=self._digests)

        return self._remembered(key, SHORTLY, look)

    def nodes(
        self,
        names: tuple[str, ...],
        peers: tuple[str, ...],
        folders: tuple[str, ...] = (),  # noqa: ARG002 - see below
    ) -> Mapping[str, Probed]:
        """Return node facts without the disks of `folders`: only checks need them, and every typed letter
        would name another folder.
        """
        key = ("nodes", names, peers, self.connector.stamp())
        return self._remembered(key, A_WHILE, lambda: super(CachedFactSources, self).nodes(names, peers))

    def batch_plan(
        self, config: RunConfig, on_progress: OnProgress | None
    ) -> tuple[BatchPlan | None, tuple[Problem, ...]]:
        path = config.training.batch_plan
        if path is None or config.run.recipe is None:
            return None, ()
        # whether its data has changed is checked as often as the code is
        key = ("batch plan", path, tuple(_stamp(file) for file in _files(Path(path))))
        return self._remembered(key, SHORTLY, lambda: read_batch_plan(config, on_progress))

    def _remembered(self, key: Hashable, seconds: float, look: Callable[[], T]) -> T:
        with self._lock:
            seen = self._seen.get(key)
            if seen is not None and self._clock() - seen[0] < seconds:
                self._seen.move_to_end(key)
                return cast("T", seen[1])
        value = look()
        with self._lock:
            self._seen[key] = (self._clock(), value)
            self._seen.move_to_end(key)
            while len(self._seen) > _KEPT:
                self._seen.popitem(last=False)
        return value


def _found(path: str) -> Path:
    return Path(path if os.sep in path else shutil.which(path) or path)


def _files(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return [path]


def _stamp(path: Path) -> tuple[str, int, int] | None:
    """Return a value that changes with the file; None if it does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return str(path), stat.st_mtime_ns, stat.st_size
