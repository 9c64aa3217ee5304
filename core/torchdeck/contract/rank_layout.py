"""Paths of a rank, of torchrun on a node, and of an examination, in one attempt. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


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


class ExaminationLayout(NamedTuple):
    """Paths of one examination of all ranks of an attempt."""

    root: Path

    def rank(self, rank: int) -> Path:
        """Return the evidence on a rank (JSON, its node's agent)."""
        return self.root / f"{rank}.json"

    def answer(self, rank: int) -> Path:
        """Return the rank's stacks and newest collectives (JSON, the rank)."""
        return self.root / f"{rank}.answer.json"

    def flight_recorder(self, rank: int) -> Path:
        """Return all that PyTorch's flight recorder has recorded in the rank (JSON, the rank)."""
        return self.root / f"{rank}.flight_recorder.json"

    def gpus(self, rank: int) -> Path:
        """Return the state of a node's GPUs, named by its lowest rank (JSON, the agent)."""
        return self.root / f"{rank}.gpus.json"

    def nccl_ras(self, rank: int) -> Path:
        """Return the answer of NCCL's RAS service, likewise (JSON or text, the agent)."""
        return self.root / f"{rank}.nccl_ras.json"

    def interfaces(self, rank: int) -> Path:
        """Return the counters of a node's network interfaces, likewise (JSON, the agent)."""
        return self.root / f"{rank}.interfaces.json"

    @property
    def verdict(self) -> Path:
        """Why the ranks make no progress (JSON, the leader's agent)."""
        return self.root / "verdict.json"


class ProfileLayout(NamedTuple):
    """Paths of one profile of chosen ranks, named by its request."""

    root: Path

    def trace(self, rank: int) -> Path:
        """Return the trace by torch.profiler in Chrome's format, compressed; the rank."""
        return self.root / f"{rank}.trace.json.gz"

    def samples(self, rank: int) -> Path:
        """Return the stacks sampled by py-spy, in speedscope's format; the agent."""
        return self.root / f"{rank}.speedscope.json"

    def summary(self, rank: int) -> Path:
        """Return the recorded seconds, and why it ended early if it did (JSON, the rank)."""
        return self.root / f"{rank}.json"

    def refusal(self, rank: int) -> Path:
        """Return why the rank has no trace (JSON, the rank); the agent then tries py-spy."""
        return self.root / f"{rank}.refused.json"

    def failure(self, rank: int) -> Path:
        """Return why there is neither a trace nor samples (JSON, the agent)."""
        return self.root / f"{rank}.failed.json"

    def part(self, rank: int) -> Path:
        """Return the trace while it is written."""
        return self.root / f".{rank}.part"


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
    def counted(self) -> Path:
        """Optimizer steps that were counted inside a script, as a progress record; the rank."""
        return self.root / "counted"

    @property
    def script(self) -> Path:
        """Progress of a script that reports none (`contract.metrics.script_state`); the agent."""
        return self.root / "script.json"

    @property
    def metrics(self) -> Path:
        """Folder of metric segments, one per table and writer incarnation."""
        return self.root / "metrics"

    @property
    def media(self) -> Path:
        """Folder of logged images, texts, histograms and tables (`contract.metrics.media_format`)."""
        return self.root / "media"

    @property
    def inside(self) -> Path:
        """Trainer that callbacks were added to in a script (`contract.metrics.inside_state`); the rank."""
        return self.root / "inside.json"

    @property
    def heartbeat(self) -> Path:
        """Heartbeat of the rank, overwritten every second (`contract.doctor.rank_heartbeat`); the rank."""
        return self.root / "heartbeat"

    @property
    def arrivals(self) -> Path:
        """Times at which it reached its newest collectives (`contract.doctor.arrivals`); the rank."""
        return self.root / "arrivals.json"

    @property
    def examine(self) -> Path:
        """Path of the folder for the rank's stacks and collectives, and a number; the agent."""
        return self.root / "examine"

    @property
    def profile(self) -> Path:
        """Folder for the rank's next profile, and its seconds; the agent."""
        return self.root / "profile"

    @property
    def stacks(self) -> Path:
        """Stacks by faulthandler, each time the agent sends the signal; the rank."""
        return self.root / "stacks.txt"

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
