"""Paths in TORCHDECK_HOME and in a run directory. Each file of a run has one writer, named with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.rank_layout import (
    AttemptNodeLayout,
    ExaminationLayout,
    ProfileLayout,
    RankLayout,
)

FORMAT_VERSION = 1
"""Version of every JSON file in a run directory. One older version is read, a newer one refused."""


HOME_VARIABLE = "TORCHDECK_HOME"


class Home(NamedTuple):
    """Paths in TORCHDECK_HOME: the folder of all that Torchdeck keeps, on the desktop and on each node."""

    root: Path

    @classmethod
    def of_bundle(cls, bundle: Path) -> Home:
        """Return the home that contains a runtime bundle."""
        return cls(bundle.parent.parent)

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
        return self.runs, self.shipped, self.code, self.leases, self.profiles, self.environments, self.sweeps

    @property
    def sweeps(self) -> Path:
        """Folder of sweeps; may not exist yet."""
        return self.root / "sweeps"

    @property
    def environments(self) -> Path:
        """Python environments made with uv, by content; shared by the runs."""
        return self.root / "environments"

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
        """Names, tags, notes and marks of runs."""
        return self.root / "notes.json"

    @property
    def views(self) -> Path:
        """Saved views of the list of runs."""
        return self.root / "views.json"

    @property
    def verified(self) -> Path:
        """Results of checkpoint verifications."""
        return self.root / "verified.json"

    @property
    def queue(self) -> Path:
        """Runs that wait for devices."""
        return self.root / "queue.jsonl"

    @property
    def queue_lock(self) -> Path:
        """Held by the queue's server with flock."""
        return self.root / "queue_server.lock"

    @property
    def queue_log(self) -> Path:
        """Output of a server that the window started."""
        return self.root / "queue_server.log"

    @property
    def queue_status(self) -> Path:
        """Last decisions of the queue's server; only shown."""
        return self.root / "queue_server.json"

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

    @classmethod
    def of_checkpoint(cls, checkpoint: Path) -> RunLayout | None:
        """Return the run with a checkpoint in its own folder of checkpoints; None if it is elsewhere."""
        layout = cls(checkpoint.parent.parent)
        return layout if layout.checkpoints == checkpoint.parent else None

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
    def alerts(self) -> Path:
        """Journal of the outcome of alerts that a controller sent (processes that deliver them)."""
        return self.root / "alerts.jsonl"

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

    @property
    def git(self) -> Path:
        """Commit of the code, and what differed from it at the start (launcher)."""
        return self.root / "git.json"

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
    def alerts(self) -> Path:
        """Journal of the outcome of alerts (processes that deliver them)."""
        return self.root / "alerts.jsonl"

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

    @classmethod
    def of_rank(cls, rank: RankLayout) -> AttemptLayout:
        """Return the layout of the attempt of a rank."""
        return cls(rank.root.parent.parent)

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

    @property
    def spawned(self) -> Path:
        """Folder with a file per process that became a rank by itself: its pid is the name, its rank the
        content.
        """
        return self.root / "spawned"

    def node(self, name: str) -> AttemptNodeLayout:
        return AttemptNodeLayout(self.root / "nodes" / name)

    def rank(self, rank: int) -> RankLayout:
        return RankLayout(self.ranks / str(rank))

    @property
    def examinations(self) -> Path:
        """Folder of examinations: one each time that ranks make no progress, or a user asks for stacks."""
        return self.root / "examinations"

    def examination(self, name: str) -> ExaminationLayout:
        return ExaminationLayout(self.examinations / name)

    def profile(self, name: str) -> ProfileLayout:
        """Return the profile that request `name` asked for."""
        return ProfileLayout(self.root / "profiles" / name)
