"""Rules on the job of an exported sbatch script."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.rules.findings import Finding, Given, Rule

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


def save_before_the_limit(given: Given) -> Iterator[Finding]:
    """Ranks are asked to save some time after they have begun: else a job that is requeued never gets on."""
    slurm = given.config.slurm
    limit = 0 if slurm.time is None else _seconds(slurm.time)
    if not limit or slurm.save_before < limit:  # 0: no limit
        return
    wrong = f"{slurm.save_before} s before the end of {slurm.time} is before the job begins"
    right = "a time limit longer than slurm.save_before"
    yield Finding(("slurm", "time"), wrong, right, (("slurm", "save_before"),))


def _seconds(text: str) -> int:
    """Return a time as sbatch takes it: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`,
    `days-hours:minutes` or `days-hours:minutes:seconds` (sbatch(1), --time).
    """
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        units: tuple[int, ...] = (_HOUR, _MINUTE, 1)
    else:
        units = (_HOUR, _MINUTE, 1) if len(parts) == 3 else (_MINUTE, 1)
    return int(days or 0) * _DAY + sum(part * unit for part, unit in zip(parts, units, strict=False))


SLURM_RULES: tuple[Rule, ...] = (save_before_the_limit,)
