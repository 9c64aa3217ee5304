"""The [slurm] table: options of the job that `torchdeck plan --export sbatch` writes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from torchdeck.options import Section, option

_WORD = r"^[^\s\x00-\x1f\x7f]+$"
"""sbatch reads an option up to the first space."""
_LINE = r"^[^\x00-\x1f\x7f]+$"
SbatchOption = Annotated[str, Field(pattern=r"^--?[A-Za-z][^\x00-\x1f\x7f]*$")]
ShellLine = Annotated[str, Field(pattern=_LINE)]


class Slurm(Section):
    """The [slurm] table: what a job asks of Slurm. Only the exported sbatch script uses it."""

    time: str | None = option(
        "Time limit of the job. Default: limits.max_hours, else that of the partition.",
        label="Time limit",
        default=None,
        pattern=r"^(\d{1,9}(:\d{1,2}){0,2}|\d{1,5}-\d{1,2}(:\d{1,2}){0,2})$",
        right='a time as sbatch takes it, such as "90" (minutes), "12:00:00" or "2-00:00:00" (days)',
    )
    account: str | None = option(
        "Account that the job is charged to.", default=None, pattern=_WORD, right="the name of an account"
    )
    partition: str | None = option(
        "Partition of the job, or several, separated by commas. Default: the cluster's.",
        default=None,
        pattern=_WORD,
        right='the name of a partition, such as "gpu"',
    )
    qos: str | None = option(
        "Quality of service of the job.",
        label="QOS",
        default=None,
        pattern=_WORD,
        right="the name of a quality of service",
    )
    constraint: str | None = option(
        "Features that the nodes must have.",
        default=None,
        pattern=_WORD,
        right='an expression of features, such as "h100&infiniband"',
    )
    gres: str | None = option(
        "Generic resources of each node. Default: gpu:N, with the number of GPUs in the plan.",
        label="Resources",
        default=None,
        pattern=_WORD,
        right='a list of resources, such as "gpu:h100:8"',
    )
    output: str = option(
        "File for the output of the job itself; that of the ranks is in the run directory. %j is the job's "
        "number, %x its name.",
        label="Output file",
        default="%x-%j.out",
        pattern=_WORD,
        right='the path of a file, such as "logs/%x-%j.out"',
    )
    save_before: int = option(
        "Time before the end of the job's time limit at which the ranks are asked to save and end.",
        label="Save before the limit",
        default=120,
        unit="s",
        ge=10,
        le=65_535,
    )
    requeue: Literal["auto", "always", "never"] = option(
        "After the time limit or a preemption: auto requeues the job if it has saved a checkpoint of "
        "Torchdeck, always also without, for scripts that continue by themselves. With never, Slurm does not "
        "requeue it after a node failure either.",
        label="Requeue",
        default="auto",
    )
    options: list[SbatchOption] = option(
        "Further options of sbatch.",
        label="More options",
        default=[],
        right='a list of options, such as ["--mail-type=END", "--exclusive"]',
    )
    setup: list[ShellLine] = option(
        "Commands that the job executes first, on its first node; with any, bash runs its script.",
        label="Setup commands",
        default=[],
        right='a list of commands, such as ["module load cuda"]',
    )
