"""Answers questions about this node: a JSON line in, a JSON line out, until standard input ends."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from torchdeck.agent.environments.make import uv_facts
from torchdeck.agent.gpus import gpu_facts
from torchdeck.agent.inbox import is_request_name
from torchdeck.agent.probe import gpu_processes, network, pythons, run_folders, runs, system
from torchdeck.agent.probe.disk_speed import disk_speed
from torchdeck.agent.probe.environments import environments
from torchdeck.agent.probe.network import Listener, reach
from torchdeck.agent.probe.run_folders import lives_here, lives_on_a_sharing_node
from torchdeck.agent.probe.system import nearest
from torchdeck.agent.probe.trial import Trial, free_port
from torchdeck.agent.supervisor_process import set_process_title
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.layout import HOME_VARIABLE, RUN_ID, Home
from torchdeck.contract.network.private_socket import why_open
from torchdeck.contract.node_requests import ProbeRequest

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]
VERSION = 1
CLEAN_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL for orphans."""
CLEAN_LIMIT = 10.0
"""Seconds after SIGKILL until processes that are still alive are given up."""


def serve(questions: TextIO, answers: TextIO) -> None:
    """Answer until `questions` ends; a question that cannot be answered gets `{"error": …}`."""
    trial, marks = Trial(), Marks()
    asked: dict[ProbeRequest, Answer] = {
        ProbeRequest.FACTS: facts,
        ProbeRequest.TIME: lambda _: {"time": time.time()},
        ProbeRequest.SAMPLE: Sampling().sample,
        ProbeRequest.OWNERS: lambda question: {"owners": owners(question)},
        ProbeRequest.CLEAN: clean,
        ProbeRequest.END_PROCESS: gpu_processes.end_process,
        ProbeRequest.LISTEN: listen,
        ProbeRequest.REACH: reached,
        ProbeRequest.SEEN: seen,
        ProbeRequest.RUNS: lambda question: run_folders.runs_of(_home(question)),
        ProbeRequest.RUN_FOLDERS: lambda question: run_folders.run_folders(_home(question), question),
        ProbeRequest.REMOVE_RUNS: lambda question: run_folders.remove_runs(_home(question), question),
        ProbeRequest.STOP_RUN: lambda question: stop_run(_home(question), question),
        ProbeRequest.TREE: run_folders.tree,
        ProbeRequest.READ: run_folders.read,
        ProbeRequest.DIGEST: run_folders.digest,
        ProbeRequest.CHECKPOINT_PROBLEMS: run_folders.checkpoint_problems,
        ProbeRequest.DISK_SPEED: disk_speed,
        ProbeRequest.FREE_PORT: free_port,
        ProbeRequest.TRIAL: trial.start,
        ProbeRequest.TRIAL_LOOK: trial.look,
        ProbeRequest.TRIAL_END: trial.end,
        ProbeRequest.LAY_MARK: marks.lay,
        ProbeRequest.SEE_MARK: marks.see,
        ProbeRequest.REMOVE_MARKS: marks.remove,
    }
    try:
        _answer_all(asked, questions, answers)
    finally:
        # who asked for them is gone
        trial.end({})
        marks.remove({})


def _answer_all(asked: Mapping[ProbeRequest, Answer], questions: TextIO, answers: TextIO) -> None:
    # by readline: iterating a file reads ahead
    for line in iter(questions.readline, ""):
        try:
            question = json.loads(line)
            answer = asked[ProbeRequest(question["ask"])](question)
        except Exception as error:  # noqa: BLE001 - whatever it is, who asks must hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps({"v": VERSION, **answer}) + "\n")
        answers.flush()


def facts(question: Mapping[str, Any]) -> dict[str, Any]:
    """All that a plan and the checks before a start need to know of a node.

    Args:
        question: `home` (TORCHDECK_HOME here), `folders` to look at the disks of, `peers` to find the way to,
            `others` whether to look for further Pythons, `deep` whether to import torch.
    """
    home = _home(question)
    known = network.interfaces()
    chosen = pythons.own_python()
    if question.get("deep"):
        chosen["deep"] = pythons.deep_python(chosen["executable"])
    return {
        "time": time.time(),
        "home": str(home),
        "system": system.system_facts(),
        "cpu": system.cpu_facts(),
        "memory": system.memory_facts(),
        "disks": system.disk_facts([str(home), *map(str, question.get("folders", ()))]),
        "gpu": gpu_facts(),
        "pythons": [chosen, *(_further(str(chosen["executable"])) if question.get("others") else ())],
        "uv": asdict(uv_facts(Home(home))),
        "interfaces": known,
        "routes": [network.route_to(str(peer), known) for peer in question.get("peers", ())],
        "own_name": network.own_name(),
        ProbeRequest.RUNS: runs.running(),
        "kills_after_logout": system.kills_after_logout(),
        "limits": system.process_limits(),
        "infiniband": system.infiniband_devices(),
        "store_open": why_open(),
        "variables": system.communication_variables(os.environ),
    }


class Sampling:
    """Current activity of the node; rates are over the time since the last sample."""

    def __init__(self) -> None:
        self._machine: Any = None
        self._gpus: Any = None
        self._users: Any = None

    def sample(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Series of the machine and its GPUs, owners of leased devices; with `runs` the runs with processes
        here and the processes on GPUs.
        """
        home = _home(question)
        if self._machine is None:
            from torchdeck.agent.gpus import gpu_sampler, gpu_user_lister
            from torchdeck.agent.machine import MachineSampler

            self._machine = MachineSampler(system.nearest(home))
            self._gpus = gpu_sampler(is_detailed=True)
            self._users = gpu_user_lister()
        values = self._machine.sample()
        if self._gpus is not None:
            values.update(self._gpus())
        return {
            "time": time.time(),
            "values": values,
            "load": os.getloadavg(),
            ProbeRequest.OWNERS: owners(question),
            ProbeRequest.RUNS: runs.running() if question.get("runs") else None,
            "gpu_processes": gpu_processes.gpu_processes(self._users) if question.get("runs") else None,
        }


def owners(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runs that lease `devices` below `home`, by device; free ones are left out."""
    from torchdeck.agent.leases import lease_holder

    leases = Home(_home(question)).leases
    devices = question.get("devices", ())
    return {key: holder for key in devices if (holder := lease_holder(leases, key)) is not None}


def clean(question: Mapping[str, Any]) -> dict[str, Any]:
    """End the processes of the named runs, unless they are supervised here; SIGTERM, grace, SIGKILL.

    Returns:
        `ended`: run id → processes that got a signal; `kept`: runs that are supervised; `left`: processes
        that do not end.
    """
    from torchdeck.agent.processes.ending import OrphanCleanup

    here = {str(run["run_id"]): run for run in runs.running()}
    ended: dict[str, int] = {}
    kept: list[str] = []
    left = 0
    grace = float(question.get("grace", CLEAN_GRACE))
    for run_id in map(str, question["run_ids"]):
        if run_id not in here:
            ended[run_id] = 0
            continue
        if here[run_id]["supervised"]:
            kept.append(run_id)
            continue
        sweep = OrphanCleanup(run_id, None, grace, CLEAN_LIMIT, time.monotonic())
        ended[run_id] = len(sweep.survivors())
        left += sweep.finish()
    return {"ended": ended, "kept": kept, "left": left}


def listen(question: Mapping[str, Any]) -> dict[str, Any]:
    """Listen on `address` and `port` for `seconds`, for those who know `word`; the port."""
    port = Listener(
        str(question["address"]), int(question["port"]), str(question["word"]), float(question["seconds"])
    ).port
    return {"port": port}


def reached(question: Mapping[str, Any]) -> dict[str, Any]:
    """Connect to `peers`; see `reach`."""
    return {
        "reached": reach(
            question["peers"],
            str(question["word"]),
            float(question["limit"]),
            int(question.get("size", 0)),
        )
    }


def _further(chosen: str) -> Iterator[dict[str, Any]]:
    """Yield Pythons on PATH, and those of environments, each once."""
    seen = {chosen}
    for found in (*pythons.other_pythons(), *environments(Path.home())):
        if found["executable"] not in seen:
            seen.add(found["executable"])
            yield found


def _home(question: Mapping[str, Any]) -> Path:
    """TORCHDECK_HOME on this node: from the node inventory, the environment, or the default."""
    named = question.get("home") or os.environ.get(HOME_VARIABLE)
    if named:
        return Path(str(named)).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "torchdeck"


def main() -> None:
    """Serve standard input."""
    os.umask(0o077)
    set_process_title("torchdeck probe", "torchdeck-probe")  # in place of the source that was sent
    serve(sys.stdin, sys.stdout)


# Existence of some paths on this node: whether another machine's files are seen here.

HASHED_LIMIT = 16 * 2**20
"""Most bytes of a file whose content is reported; scripts are smaller."""


def seen(question: Mapping[str, Any]) -> dict[str, Any]:
    """For each of `paths`: `kind` (file, folder or empty), `size` and, of smaller files, `sha256`."""
    return {"seen": [_seen(Path(str(path)).expanduser()) for path in question["paths"]]}


def _seen(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"path": str(path), "kind": "", "size": 0, "sha256": "", "readable": False}
    try:
        # a network file system remembers for a while that a file was not there, until its folder is listed
        os.listdir(path.parent)  # noqa: PTH208 - for its effect alone
        found["size"] = path.stat().st_size
    except OSError:
        return found
    found["kind"] = "folder" if path.is_dir() else "file"
    found["readable"] = os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))
    if path.is_file() and found["readable"] and found["size"] <= HASHED_LIMIT:
        import hashlib  # takes a while to load

        with contextlib.suppress(OSError):  # replaced since, or a file of /proc
            found["sha256"] = hashlib.sha256(read_bounded(path, HASHED_LIMIT)).hexdigest()
    return found


# Files laid into folders for a moment, by which nodes find out whether they have the same folder.


class Marks:
    """Folders of one session; all are removed at its end.

    A missing folder stands for its nearest existing parent, in which it would be created.
    """

    def __init__(self) -> None:
        self._laid: list[Path] = []

    def lay(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Write a file with a new unique `name` into `folder`. Raises OSError."""
        path = _place(question) / f".torchdeck-{secrets.token_hex(8)}.mark"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._laid.append(path)
        return {"name": path.name}

    def see(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Which of the marks `names` that nodes have laid are in this node's `folder`."""
        folder, names = _place(question), [str(name) for name in question["names"]]
        try:
            # listed, as a network file system remembers for a while that a file was not there
            found = set(os.listdir(folder))  # noqa: PTH208 - names are enough
        except OSError:
            # of os.path: a folder without permission to enter it yields nothing, not an error
            found = {name for name in names if os.path.exists(folder / name)}  # noqa: PTH110
        return {"seen": [name for name in names if name in found]}

    def remove(self, _question: Mapping[str, Any]) -> dict[str, Any]:
        """Those that were laid."""
        while self._laid:
            with contextlib.suppress(OSError):
                self._laid.pop().unlink()
        return {}


def _place(question: Mapping[str, Any]) -> Path:
    return nearest(Path(str(question["folder"])).expanduser())


def stop_run(home: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Pass a stop request to the run's agent, if a process of the run is alive on this node.

    Args:
        home: TORCHDECK_HOME here.
        question: `run_id`, `node` (its name in the plan), and `request`: the name of the request's file. The
            name says all of it. Without it this only looks.

    Returns:
        `lives`: what of the run lives here, as a sentence; empty if nothing does.

    Raises:
        ValueError: one of them is no such name.
        OSError: the request cannot be written.
    """
    run_id, node, name = (str(question.get(key) or "") for key in ("run_id", "node", "request"))
    if RUN_ID.fullmatch(run_id) is None or Path(node).name != node or node in ("", ".."):
        raise ValueError(f"{run_id!r} is no run's id, or {node!r} no node's name")
    if name and not is_request_name(name):
        raise ValueError(f"{name!r} is no name of a stop request")
    layout = Home(home).run(run_id)
    lives = lives_here(run_id, layout.root)
    if lives and name and layout.root.is_dir():
        inbox = layout.node(node).inbox
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        (inbox / name).touch(mode=0o600)
    return {"lives": lives or lives_on_a_sharing_node(layout.root)}
