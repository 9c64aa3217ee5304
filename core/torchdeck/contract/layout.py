"""Paths in TORCHDECK_HOME and in a run directory. Each file of a run has one writer, named with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FORMAT_VERSION = 1
"""Version of every JSON file in a run directory. One older version is read, a newer one refused."""


HOME_VARIABLE = "TORCHDECK_HOME"


class Home(NamedTuple):
    """Paths in TORCHDECK_HOME: the folder of all that Torchdeck keeps, on the desktop and on each node."""

    root: Path

    @property
    def runs(self) -> Path:
        """Folder of run directories; may not exist yet."""
        return self.root / "runs"

    def run(self, run_id: str) -> RunLayout:
        return RunLayout(self.runs / run_id)

    @property
    def code(self) -> Path:
        """Files of user code, by content; shared by the runs."""
        return self.root / "code"

    @property
    def shipped(self) -> Path:
        """Runtime bundles, one folder per content."""
        return self.root / "shipped"

    @property
    def leases(self) -> Path:
        """Lock files of devices."""
        return self.root / "leases"

    @property
    def profiles(self) -> Path:
        """Profiles of models, by content."""
        return self.root / "profiles"

    @property
    def private(self) -> tuple[Path, ...]:
        """Folders whose content is executed or trusted: no other user may write in them."""
        return self.runs, self.shipped, self.code, self.leases, self.profiles

    @property
    def compiled(self) -> Path:
        """Output of torch.compile; shared by the runs."""
        return self.root / "compiled"

    @property
    def compile_cache(self) -> dict[str, str]:
        """The variable by which torch uses that folder.

        Its default is a folder in /tmp whose name other users can guess: they could make it first, and put
        code into it that a run then executes.
        """
        return {"TORCHINDUCTOR_CACHE_DIR": str(self.compiled)}

    @property
    def deleted(self) -> Path:
        """Runs deleted here but not yet on their nodes: one folder per node."""
        return self.root / "deleted"

    @property
    def trusted(self) -> Path:
        """Folders whose code may run."""
        return self.root / "trusted.json"

    @property
    def node_inventory(self) -> Path:
        return self.root / "nodes.toml"

    @property
    def measured_nodes(self) -> Path:
        """Measurements between nodes, cached for later checks."""
        return self.root / "measured_nodes.json"

    @property
    def known_hosts(self) -> Path:
        """Host keys accepted here, in OpenSSH's format."""
        return self.root / "known_hosts"

    @property
    def keyring(self) -> Path:
        """Names of the secrets in the system's keyring, not the secrets."""
        return self.root / "keyring.json"

    @property
    def notes(self) -> Path:
        """Tags and notes of runs."""
        return self.root / "notes.json"

    @property
    def verified(self) -> Path:
        """Results of checkpoint verifications."""
        return self.root / "verified.json"

    @property
    def settings(self) -> Path:
        """Settings of the window."""
        return self.root / "settings.json"

    @property
    def window(self) -> Path:
        """Last session of the window."""
        return self.root / "window.json"


RUN_ID = re.compile(r"\d{8}T\d{6}Z-[a-z0-9-]+-[0-9a-f]{6}")
"""Name of a run directory: time, name, random suffix."""
TRASH_PREFIX = ".deleted-"


class RunLayout(NamedTuple):
    """Paths inside one run directory."""

    root: Path

    @property
    def home(self) -> Home:
        """TORCHDECK_HOME of the run."""
        return Home(self.root.parent.parent)

    def trash(self, *, on_nodes: bool = False) -> Path:
        """Return the path of the run from its deletion until it is removed; `on_nodes`: if it is also deleted
        from its nodes.
        """
        # the name records it: it is written with the rename or not at all, and needs no disk space
        everywhere = "everywhere-" if on_nodes else ""
        return self.root.with_name(f"{TRASH_PREFIX}{everywhere}{self.root.name}")

    @property
    def config(self) -> Path:
        """Run file as written by the user, frozen (launcher)."""
        return self.root / "run.toml"

    @property
    def plan(self) -> Path:
        """Resolved plan, slots empty (launcher)."""
        return self.root / "plan.json"

    @property
    def journal(self) -> Path:
        """Events of the controller (launcher until a controller is up, then the controller)."""
        return self.root / "journal.jsonl"

    @property
    def control(self) -> Path:
        """Requests to the controller, one file each (front ends)."""
        return self.root / "control"

    @property
    def controller_lock(self) -> Path:
        """Held by the controller with flock."""
        return self.root / "controller.lock"

    @property
    def controller_log(self) -> Path:
        """Standard output and error of the detached controller."""
        return self.root / "controller.log"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints unless the config names one (ranks)."""
        return self.root / "checkpoints"

    @property
    def code(self) -> Path:
        """The run's own copy of the user's code (launcher; on other nodes the receiver), never changed."""
        return self.root / "code"

    @property
    def code_manifest(self) -> Path:
        """Manifest of that copy, written before it (the same)."""
        return self.root / "code.json"

    def node(self, name: str) -> NodeLayout:
        return NodeLayout(self.nodes / name)

    def attempt(self, number: int) -> AttemptLayout:
        return AttemptLayout(self.attempts / str(number))

    def attempt_numbers(self) -> list[int]:
        """Numbers of the attempts that have a directory, ascending."""
        if not self.attempts.is_dir():
            return []
        return sorted(int(path.name) for path in self.attempts.iterdir() if path.name.isdecimal())


class NodeLayout(NamedTuple):
    """Paths of one node; all written by that node's agent unless noted otherwise."""

    root: Path

    @property
    def run(self) -> RunLayout:
        """Layout of the run that the node takes part in."""
        return RunLayout(self.root.parent.parent)

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def heartbeat(self) -> Path:
        """One small JSON file, overwritten every second."""
        return self.root / "heartbeat.json"

    @property
    def system(self) -> Path:
        """Folder of metric segments: the machine's series, one row per second."""
        return self.root / "system"

    @property
    def inbox(self) -> Path:
        """Requests to the agent, one file each (controller)."""
        return self.root / "inbox"

    @property
    def lock(self) -> Path:
        """Held by the agent with flock."""
        return self.root / "agent.lock"

    @property
    def log(self) -> Path:
        """Standard output and error of the agent and its shim."""
        return self.root / "agent.log"


class AttemptLayout(NamedTuple):
    """Paths of one attempt."""

    root: Path

    @property
    def run(self) -> RunLayout:
        """Layout of the run of this attempt."""
        return RunLayout(self.root.parent.parent)

    @property
    def plan(self) -> Path:
        """Plan with its slots filled (the leader's agent)."""
        return self.root / "plan.json"

    @property
    def stop(self) -> Path:
        """Exists if the ranks should finish the step, save and exit (agent); rank 0 polls it."""
        return self.root / "stop"

    @property
    def ranks(self) -> Path:
        return self.root / "ranks"

    def node(self, name: str) -> AttemptNodeLayout:
        return AttemptNodeLayout(self.root / "nodes" / name)

    def rank(self, rank: int) -> RankLayout:
        return RankLayout(self.ranks / str(rank))


class AttemptNodeLayout(NamedTuple):
    """Paths of torchrun's part in one attempt on one node (shim)."""

    root: Path

    @property
    def holder(self) -> Path:
        """Identity of the shim and of torchrun (JSON)."""
        return self.root / "holder.json"

    @property
    def plan(self) -> Path:
        """Plan with its slots filled for this node (its agent, unless it is the leader)."""
        return self.root / "plan.json"

    @property
    def exit(self) -> Path:
        """torchrun's exit status as the shim saw it (JSON), written atomically."""
        return self.root / "exit.json"

    @property
    def ending(self) -> Path:
        """Is there once the agent has had ranks signalled: none starts any more."""
        return self.root / "ending"

    @property
    def torchrun_log(self) -> Path:
        """Standard output and error of torchrun itself."""
        return self.root / "torchrun.log"

    @property
    def trainer_files(self) -> Path:
        """Lengths of the files with metrics that were there when the attempt began (JSON, agent)."""
        return self.root / "trainer_files.json"

    @property
    def strangers(self) -> Path:
        """Number of connections that torchrun's store has refused, and the last one's reason (JSON,
        torchrun).
        """
        return self.root / "strangers.json"


class RankLayout(NamedTuple):
    """Paths of one rank in one attempt (the rank, or its rank shim)."""

    root: Path

    @property
    def stdout(self) -> Path:
        return self.root / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.root / "stderr.log"

    @property
    def log_times(self) -> Path:
        """Lengths of the two logs over time (`contract.log_times`); the agent."""
        return self.root / "log_times"

    @property
    def error(self) -> Path:
        """torchrun's error file: the Python traceback of a rank that raised."""
        return self.root / "error.json"

    @property
    def exit(self) -> Path:
        """Exit code of the rank as its rank shim saw it: one number, 128 + n for signal n."""
        return self.root / "exit"

    @property
    def holder(self) -> Path:
        """Pid of the rank shim, whose one child is the rank."""
        return self.root / "holder.pid"

    @property
    def progress(self) -> Path:
        """Last progress of the rank, overwritten."""
        return self.root / "progress"

    @property
    def script(self) -> Path:
        """Progress of a script that reports none (`contract.metrics.script_state`); the agent."""
        return self.root / "script.json"

    @property
    def metrics(self) -> Path:
        """Folder of metric segments, one per table and writer incarnation."""
        return self.root / "metrics"

    @property
    def inside(self) -> Path:
        """Trainer that callbacks were added to in a script (`contract.metrics.inside_state`); the rank."""
        return self.root / "inside.json"

    @property
    def trace(self) -> Path:
        """Trace by torch.profiler of telemetry.profile_steps, in Chrome's format; the trainer."""
        return self.root / "trace.json.gz"

    @property
    def samples(self) -> Path:
        """Samples that the rank really used, one record per step (`torchdeck.data.sample_log`); the
        trainer.
        """
        return self.root / "samples.log"
