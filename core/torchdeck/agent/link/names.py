"""Which files of a run directory are mirrored, how, and what comes first: by their names in `RunLayout`.

Both ends ask this: the node for what to send, the controller for what to take.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.doctor.rank_profile import is_profile_name
from torchdeck.contract.layout import AttemptLayout, NodeLayout, RunLayout
from torchdeck.contract.metrics.checksums import CHECKSUMS_SUFFIX
from torchdeck.contract.metrics.media_format import FILE_LIMIT, MEDIA_SUFFIX
from torchdeck.contract.metrics.segment_format import SEGMENT_SUFFIX
from torchdeck.contract.rank_layout import AttemptNodeLayout, ExaminationLayout, RankLayout


class Way(enum.Enum):
    """How a file changes."""

    APPENDED = "appended"
    ROWS = "rows"
    """Appended, a metrics segment: a row may be written after one that follows it."""
    REPLACED = "replaced"
    """Small, and another one each time."""
    RECORD = "record"
    """As `REPLACED`, but overwritten in place: its reader sees by a checksum whether it is whole."""

    @property
    def grows(self) -> bool:
        """Whether the file only grows."""
        return self is Way.APPENDED or self is Way.ROWS


class Level(enum.IntEnum):
    """Priority over a slow link."""

    EVENTS = 0
    STATE = 1
    METRICS = 2
    MACHINE = 3
    LOGS = 4
    BULK = 5


NOTHING = max(Level) + 1
"""Above every level: nothing is held back."""
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


class Mirrored(NamedTuple):
    """How a file is mirrored."""

    way: Way
    level: Level
    limit: int
    """Bytes of it that are mirrored at most: a node can make a file of any length for nothing."""


_HERE = RunLayout(Path())
_NODE = NodeLayout(Path())
_ATTEMPT = AttemptLayout(Path())
_ATTEMPT_NODE = AttemptNodeLayout(Path())
_EXAMINATION = ExaminationLayout(Path())
_RANK = RankLayout(Path())

_NODE_FILES = {
    str(_NODE.journal): Mirrored(Way.APPENDED, Level.EVENTS, _GIB),
    str(_NODE.alerts): Mirrored(Way.APPENDED, Level.EVENTS, 64 * _MIB),
    str(_NODE.heartbeat): Mirrored(Way.REPLACED, Level.STATE, 8 * _MIB),
    str(_NODE.log): Mirrored(Way.APPENDED, Level.LOGS, _GIB),
}
_ATTEMPT_FILES = {str(_ATTEMPT.plan): Mirrored(Way.REPLACED, Level.STATE, 32 * _MIB)}
_ATTEMPT_NODE_FILES = {
    str(_ATTEMPT.plan): Mirrored(Way.REPLACED, Level.STATE, 32 * _MIB),
    str(_ATTEMPT_NODE.holder): Mirrored(Way.REPLACED, Level.STATE, 64 * _KIB),
    str(_ATTEMPT_NODE.exit): Mirrored(Way.REPLACED, Level.EVENTS, 64 * _KIB),
    str(_ATTEMPT_NODE.torchrun_log): Mirrored(Way.APPENDED, Level.LOGS, 16 * _GIB),
}
_RANK_FILES = {
    str(_RANK.stdout): Mirrored(Way.APPENDED, Level.LOGS, 64 * _GIB),
    str(_RANK.stderr): Mirrored(Way.APPENDED, Level.LOGS, 64 * _GIB),
    str(_RANK.log_times): Mirrored(Way.APPENDED, Level.LOGS, _GIB),
    str(_RANK.error): Mirrored(Way.REPLACED, Level.EVENTS, 16 * _MIB),
    str(_RANK.exit): Mirrored(Way.REPLACED, Level.EVENTS, 64),
    str(_RANK.holder): Mirrored(Way.REPLACED, Level.STATE, 64),
    str(_RANK.progress): Mirrored(Way.RECORD, Level.STATE, 64 * _KIB),
    str(_RANK.script): Mirrored(Way.REPLACED, Level.STATE, 64 * _KIB),
    str(_RANK.inside): Mirrored(Way.REPLACED, Level.STATE, 64 * _KIB),
    str(_RANK.trace): Mirrored(Way.APPENDED, Level.BULK, 16 * _GIB),
    str(_RANK.stacks): Mirrored(Way.APPENDED, Level.LOGS, 64 * _MIB),
    str(_RANK.samples): Mirrored(Way.APPENDED, Level.BULK, 64 * _GIB),
}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,120}", re.ASCII)
_EVIDENCE = re.compile(
    r"(?:0|[1-9][0-9]{0,6})(?P<kind>|\.answer|\.flight_recorder|\.gpus|\.nccl_ras|\.interfaces)\.json",
    re.ASCII,
)
_PROFILED = re.compile(
    r"(?:0|[1-9][0-9]{0,6})(?:(?P<large>\.trace\.json\.gz|\.speedscope\.json)|(?:\.refused|\.failed)?\.json)",
    re.ASCII,
)
_LONGEST = 512


def mirrored(path: str, node: str) -> Mirrored | None:
    """How the file at `path`, relative to the run directory, is mirrored from `node`; None: not at all.

    Only names that that node's part of the run can write are any: no `..`, nothing absolute, no other node.
    """
    if len(path) > _LONGEST or "\0" in path:
        return None
    parts = path.split("/")
    if parts[:2] == [_HERE.nodes.name, node]:
        return _of_node(parts[2:])
    if parts[0] != _HERE.attempts.name or len(parts) < 3 or not _NUMBER.fullmatch(parts[1]):
        return None
    return _of_attempt(parts[2:], node)


def rank_of(path: str) -> int | None:
    """The rank that a mirrored file belongs to; None for one that belongs to none."""
    parts = path.split("/")
    return int(parts[3]) if len(parts) > 4 and parts[2] == _ATTEMPT.ranks.name else None


def is_node_name(name: str) -> bool:
    """Whether `name` can be a folder of its own and nothing else."""
    return 0 < len(name) <= 200 and name not in {".", ".."} and "/" not in name and "\0" not in name


def _of_node(rest: list[str]) -> Mirrored | None:
    if len(rest) == 2 and rest[0] == _NODE.system.name:
        return _segment(rest[1], Level.MACHINE)
    return _NODE_FILES.get(rest[0]) if len(rest) == 1 else None


def _of_attempt(rest: list[str], node: str) -> Mirrored | None:
    if len(rest) == 1:
        return _ATTEMPT_FILES.get(rest[0])
    if rest[:2] == [_HERE.nodes.name, node]:
        return _ATTEMPT_NODE_FILES.get(rest[2]) if len(rest) == 3 else None
    if rest[0] == _ATTEMPT.examinations.name:
        return _of_examination(rest[1:])
    if rest[0] == _ATTEMPT.profile("").root.name:
        return _of_profile(rest[1:])
    if rest[0] != _ATTEMPT.ranks.name or len(rest) < 3 or not _NUMBER.fullmatch(rest[1]):
        return None
    if len(rest) == 4 and rest[2] == _RANK.metrics.name:
        return _segment(rest[3], Level.METRICS)
    if len(rest) == 4 and rest[2] == _RANK.media.name:
        return _media(rest[3])
    return _RANK_FILES.get(rest[2]) if len(rest) == 3 else None


def _media(name: str) -> Mirrored | None:
    """Images, texts, histograms and tables of one process."""
    stem, dot, suffix = name.rpartition(".")
    if not _SEGMENT.fullmatch(stem) or dot + suffix != MEDIA_SUFFIX:
        return None
    return Mirrored(Way.APPENDED, Level.BULK, FILE_LIMIT)


def _of_examination(rest: list[str]) -> Mirrored | None:
    if len(rest) != 2 or not _SEGMENT.fullmatch(rest[0]):
        return None
    if rest[1] == _EXAMINATION.verdict.name:
        return Mirrored(Way.REPLACED, Level.STATE, 64 * _KIB)
    match = _EVIDENCE.fullmatch(rest[1])
    if match is None:
        return None
    kind = match["kind"]
    return Mirrored(Way.REPLACED, Level.BULK if kind else Level.LOGS, (64 if kind else 4) * _MIB)


def _of_profile(rest: list[str]) -> Mirrored | None:
    if len(rest) != 2 or not is_profile_name(rest[0]):
        return None
    match = _PROFILED.fullmatch(rest[1])
    if match is None:
        return None
    large = match["large"] is not None
    return Mirrored(Way.REPLACED, Level.BULK if large else Level.LOGS, _GIB if large else 64 * _KIB)


def _segment(name: str, level: Level) -> Mirrored | None:
    """A metrics segment, or the file with its checksums."""
    stem, dot, suffix = name.rpartition(".")
    if not _SEGMENT.fullmatch(stem):
        return None
    kinds = {
        SEGMENT_SUFFIX: Mirrored(Way.ROWS, level, 64 * _GIB),
        CHECKSUMS_SUFFIX: Mirrored(Way.APPENDED, level, _GIB),
    }
    return kinds.get(dot + suffix)
