"""A cluster of Slurm's own on this machine: slurmctld and a slurmd for each node, from `with` to its end."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from support.system.free_port import free_port
from support.waiting import wait_until

_SYSTEM = "/usr/sbin:/sbin"
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
# a signal reaches all processes of a step, as with cgroups
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
# a busy machine only takes longer; a job that could not begin fails at once, and is not queued again
TCPTimeout=20
MessageTimeout=60
BatchStartTimeout=60
ReturnToService=2
JobRequeue=0
KillWait=90
SchedulerParameters=batch_sched_delay=0,sched_interval=1
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=FORCE:4
"""
_ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL")


def why_no_slurm() -> str:
    """Why there can be no cluster here; empty where it can."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun") if not _where(name)]
    if missing:
        packages = "slurmctld slurmd slurm-client munge"
        return f"Slurm is not installed here (there is no {missing[0]}): apt-get install {packages}"
    return "" if os.geteuid() == 0 else "slurmd runs jobs as root alone"


def _where(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}")


class SlurmCluster:
    """Two or more nodes, called 127.0.0.1, 127.0.0.2, …, so that they resolve without a name server.

    Its files are in a folder with a short name: slurmstepd listens on a Unix socket in there, whose path
    may have 107 bytes, and one that does not fit ends each job before it begins, with nothing said of it.

    Args:
        count: how many nodes.
    """

    def __init__(self, count: int = 2) -> None:
        self.names = [f"127.0.0.{number + 1}" for number in range(count)]
        self._folder = Path()
        self._ends = ExitStack()
        self._written: dict[str, Path] = {}
        """Job → what it writes to."""
        self._hastened: set[str] = set()
        """Requeued jobs that need not wait any more."""

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            self._folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
            self._start_munge(ends)
            self._write_config()
            self._start(ends, "slurmctld", "-D", "-i")
            for name in self.names:
                self._start(ends, "slurmd", "-D", "-N", name)
            self._wait(self._is_up, 60, "all nodes to be idle", self._folder / "no job")
            ends.callback(self._end_jobs)
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._ends.close()

    def submit(self, script: Path, *options: str, env: Mapping[str, str], limit: float) -> tuple[str, str]:
        """Hand a script to sbatch and wait for its end: (state, what the job wrote).

        Args:
            script: the job's; what it writes goes beside it.
            options: of sbatch.
            env: added to the environment that it is submitted in.
            limit: seconds until the job has to be over.

        Raises:
            AssertionError: it was refused, or is not over, with all that is known of it.
        """
        return self.end_of(self.start(script, *options, env=env), limit)

    def start(self, script: Path, *options: str, env: Mapping[str, str]) -> str:
        """Hand a script to sbatch and return the number of its job; arguments as of `submit`."""
        written = script.with_suffix(".out")
        done = self.run(
            "sbatch",
            "--parsable",
            *options,
            f"--chdir={script.parent}",
            f"--output={written}",
            str(script),
            env=env,
        )
        number = done.stdout.strip()
        assert number.isdecimal(), done.stderr
        self._written[number] = written
        return number

    def end_of(self, number: str, limit: float) -> tuple[str, str]:
        """Wait for the end of a job: (state, what it wrote). One that is requeued starts in seconds."""
        written = self._written[number]
        # not sbatch --wait, which looks only every half a minute after a while
        self._wait(lambda: self._state(number) in _ENDS, limit, f"job {number} to be over", written)
        return self._state(number), _text(written)

    def _state(self, number: str) -> str:
        """Of a job, as scontrol calls it."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).stdout.split()
        found = dict(word.split("=", 1) for word in words if "=" in word)
        if found.get("Reason") == "BeginTime" and number not in self._hastened:
            # Slurm has a requeued job wait for two minutes; at once its credential would be refused
            self._hastened.add(number)
            self.run("scontrol", "update", f"jobid={number}", "StartTime=now+6")
        return found.get("JobState", "")

    def _wait(self, condition: Callable[[], bool], limit: float, what: str, written: Path) -> None:
        """Fails with what Slurm says of nodes and jobs, what the job wrote, and the daemons' last lines."""
        try:
            wait_until(condition, limit, what, every=0.2)
        except AssertionError as error:
            told = [
                self.run("scontrol", "--oneliner", "show", "job").stdout,
                self.run("sinfo", "--Node", "--long").stdout,
                f"{written.name}:\n{_text(written)}",
            ]
            logs = sorted(self._folder.glob("*.log"))
            told += ["\n".join([f"{log.name}:", *_text(log).splitlines()[-20:]]) for log in logs]
            raise AssertionError("\n\n".join([str(error), *told])) from None

    def _end_jobs(self) -> None:
        """End what a failed test left: without the daemons, jobs would go on for ever."""

        def is_quiet() -> bool:
            return not self.run("squeue", "--noheader").stdout.strip()

        if not is_quiet():
            self.run("scancel", "--batch", "--signal=KILL", *self._written)
            self.run("scancel", *self._written)
            with contextlib.suppress(AssertionError):
                wait_until(is_quiet, 30, "all jobs to be over", every=0.2)

    def _is_up(self) -> bool:
        seen = self.run("sinfo", "--noheader", "--format", "%D %t")
        return seen.stdout.split() == [str(len(self.names)), "idle"]

    def _start_munge(self, ends: ExitStack) -> None:
        self._folder.chmod(0o755)
        home = self._folder / "munge"
        home.mkdir(mode=0o700)
        key = home / "key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        own = [f"--{name}-file={home / name}" for name in ("key", "pid", "log", "seed")]
        socket_path = self._folder / "munge.socket"
        self._start(ends, "munged", "--foreground", "--force", f"--socket={socket_path}", *own)
        wait_until(socket_path.exists, 20, "munged's socket")

    def _write_config(self) -> None:
        host = socket.gethostname().partition(".")[0]
        (self._folder / "state").mkdir(mode=0o700)
        text = _CONFIG.format(folder=self._folder, host=host, port=free_port(), user="root")
        for name in self.names:
            # each by an address of its own: slurmd takes the port of that one alone
            text += f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2\n"
        self._config.write_text(text)

    @property
    def _config(self) -> Path:
        return self._folder / "slurm.conf"

    def _start(self, ends: ExitStack, name: str, *arguments: str) -> None:
        log = ends.enter_context(
            (self._folder / f"{name}{len(list(self._folder.glob('*.log')))}.log").open("wb")
        )
        process = subprocess.Popen(
            [_where(name) or name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SLURM_CONF": str(self._config)},
        )
        ends.callback(_end, process)

    def run(
        self, name: str, *arguments: str, env: Mapping[str, str] | None = None, limit: float = 20.0
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_where(name) or name, *arguments],
            env={**os.environ, **(env or {}), "SLURM_CONF": str(self._config)},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(15)
