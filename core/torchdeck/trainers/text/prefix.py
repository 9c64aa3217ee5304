"""Prefixes that loggers and launchers put before a line: times, levels, source files, ranks.

Standard library, Python 3.10: the agent reads output with it.
"""

from __future__ import annotations

import re

_LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL"
_STAMP = r"\d{4}[-/]\d\d[-/]\d\d[ T,]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_PARTS = "|".join(
    (
        r"\([A-Za-z_][\w.:-]{0,63} pid=\d{1,9}(?:, ip=[\w.:]{1,45})?\)",  # Ray
        r"\[(?:rank|default|Rank |RANK )\d{1,6}\]:?",  # torchrun's --tee, torch, DeepSpeed
        rf"\[?{_STAMP}\]?",
        r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d",  # the examples of transformers
        r"\[\d\d/\d\d \d\d:\d\d:\d\d [\w.]{1,63}\]|\d\d/\d\d \d\d:\d\d:\d\d",  # detectron2, mmengine
        r"\[\d\d:\d\d:\d\d\]|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?",
        r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,9} [\w./-]{1,127}:\d{1,6}\]",  # absl, torch
        rf"\[(?:{_LEVELS})[|:][^\]\n]{{1,127}}\]",  # [INFO|trainer.py:123], [INFO:swift]
        rf"\[(?:{_LEVELS})\]|(?:{_LEVELS})\b",
        r"\[?[\w/-]{1,127}\.py:\d{1,6}(?::[\w<>]{1,63})?\]?",  # [logging.py:107:log_dist]
        r"\[[a-z_][\w.-]{0,63}(?::\d{1,6}(?:, rank=\d{1,6})?)?\]",  # [titan], [olmo.train:816, rank=0]
        r"-?>>|[|:-](?= )",
    )
)
_PART = re.compile(rf"[ \t]{{0,16}}(?:{_PARTS})[ \t]{{0,16}}", re.ASCII)
# only after a time or a level: without it these are the words of the line itself
_LOGGER = re.compile(
    r"(?!(?:train|val|eval|test|dev|epoch|step|iter|loss))"
    r"(?:[A-Za-z_][\w.]{0,63}(?= [|-] )|[A-Za-z_]\w{0,63}(?:\.\w{1,63}){1,8}(?::\d{1,6})?(?= >>| -|:))"
    r"[ \t:]{0,4}",
    re.ASCII | re.IGNORECASE,
)
_MOST_PARTS = 16


def strip_prefix(text: str) -> str:
    """Return a line without its prefixes."""
    start = 0
    for _ in range(_MOST_PARTS):
        match = _PART.match(text, start)
        if match is None and start:
            match = _LOGGER.match(text, start)
        if match is None or match.end() == start:
            break
        start = match.end()
    return text[start:]
