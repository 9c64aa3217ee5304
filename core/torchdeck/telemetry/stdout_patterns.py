"""Numbers parsed from the output of training scripts: known formats, and user-defined patterns.

Standard library, Python 3.10: the agent does this. Formats as printed by nanoGPT (train.py), the Hugging Face
Trainer (dict lines), Lightning (tqdm and rich bars), torchtitan (its metrics line, ANSI colours in it), tqdm
with a postfix, and by hand ("loss: 1.23", "loss=1.23 step=5"). Names are converted to lower case with `_` for
spaces, and the printed unit is appended ("time 12ms" is time_ms, "mfu: 5%" is mfu_percent); keys of dict
lines stay.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Optional

Reading = tuple[Optional[int], dict[str, float]]  # noqa: UP045 - evaluated here, where Python 3.10 reads it
"""The step, if the line names one, and the metrics."""

LINE_LIMIT = 4096
"""Maximum number of characters parsed per line; no script prints its loss further to the right."""
NAME_LIMIT = 128

# every repeat has a bound, and none is nested in another that could match the same text: no line costs more
# than its length times a constant
_NUMBER = (
    r"[-+]?(?:\d{1,3}(?:,\d{3}){1,6}(?![\d,])(?:\.\d{1,30})?|\d{1,30}(?:\.\d{0,30})?(?:e[-+]?\d{1,4})?"
    r"|\.\d{1,30}(?:e[-+]?\d{1,4})?|nan\b|inf(?:inity)?\b)"
)
_UNIT = r"(?P<unit>%|ms|us|µs|min|s|[KMGT]i?B)?"
# not allowed after a number: more of a word, a clock time, a version, a date, a fraction
_END = r"(?![\w%]|[:/.-]\d)"
_STAGE = r"(?:(?:train|training|val|valid|validation|test|eval|dev|total|mean|avg|average|running) )?"
_FLAGS = re.IGNORECASE | re.ASCII

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_HINT = re.compile(r"loss|step|iter", re.IGNORECASE)
_DICT = re.compile(r"\{\s{0,4}['\"]")
_DICT_PAIR = re.compile(
    rf"(?P<quote>['\"])(?P<name>[^'\"]{{1,{NAME_LIMIT}}})(?P=quote)\s{{0,4}}:\s{{0,4}}"
    rf"['\"]?(?P<number>{_NUMBER})['\"]?\s{{0,4}}[,}}]",
    _FLAGS,
)
_STEP = re.compile(
    r"(?<![\w./-])(?:global[_ ]|train[_ ])?(?:step|iter|iteration)['\"]?[ \t:=\[(#]{1,8}"
    r"(?P<number>\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,18})(?![\w%]|[:.-]\d)",
    _FLAGS,
)
_EPOCH = re.compile(
    r"(?<![\w./-])epoch[ \t:=\[(#]{1,8}(?P<number>\d{1,9}(?:\.\d{1,9})?)(?![\w%]|[:.-]\d)", _FLAGS
)
_PAIR = re.compile(
    rf"(?<![\w./-])(?P<name>{_STAGE}[a-z_][\w./@-]{{0,63}})\s{{0,8}}[:=]\s{{0,8}}(?:tensor\(|\[)?"
    rf"(?P<number>{_NUMBER}){_UNIT}{_END}",
    _FLAGS,
)
# without ":" or "=" between, only known names are accepted: "train loss 2.1", "time 12.3ms"
_SPACED = re.compile(
    rf"(?<![\w./-])(?P<name>{_STAGE}loss|time|mfu|lr|ppl|perplexity|acc|accuracy)[ \t]{{1,8}}"
    rf"(?P<number>{_NUMBER}){_UNIT}{_END}",
    _FLAGS,
)
_BAR = re.compile(
    r"(?:\|[^|\n]{0,256}\||(?<![━╸╺─])[━╸╺─]{1,256})[ \t]{0,8}"
    r"(?P<done>\d{1,12})/(?P<total>\d{1,12})(?![\w./-])"
)
_STEP_KEYS = ("step", "global_step", "iter", "iteration")
_NO_METRICS = frozenset(
    (*_STEP_KEYS, "epoch", "v_num", "seed", "rank", "local_rank", "world_size", "port", "pid", "cuda")
)
_UNIT_NAMES = {"%": "percent", "µs": "us"}


def parse_line(line: str) -> Reading | None:
    """Return the step and the metrics in one printed line; None if there are none. Never raises.

    For a progress bar that is redrawn (carriage returns), the last drawing counts.
    """
    text = _last_drawing(line)
    if _DICT.search(text) and (reading := _from_dict(text)) is not None:
        return reading
    if not _HINT.search(text):
        return None
    return _from_pairs(text)


def _last_drawing(line: str) -> str:
    return _ANSI.sub("", line.rstrip("\r\n").rpartition("\r")[2][:LINE_LIMIT])


def _from_dict(text: str) -> Reading | None:
    """Parse Hugging Face's {'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 0.1}, and similar JSON lines."""
    metrics = {match["name"]: number_in(match["number"]) for match in _DICT_PAIR.finditer(text)}
    if not any("loss" in name or name == "epoch" or name in _STEP_KEYS for name in metrics):
        return None
    step = None
    for key in _STEP_KEYS:
        value = metrics.pop(key, math.nan)
        if step is None and math.isfinite(value):
            step = int(value)
    return (step, metrics) if metrics.keys() - {"epoch"} else None


def _from_pairs(text: str) -> Reading | None:
    """Parse lines that name a loss, or a step and another value."""
    metrics = dict(_pairs(text))
    step, epoch = _step_in(text), _EPOCH.search(text)
    if not metrics or (step is None and not any("loss" in name for name in metrics)):
        return None
    bar = _BAR.search(text)
    if step is None and bar is not None:
        step = int(bar["done"]) + (int(float(epoch["number"])) * int(bar["total"]) if epoch else 0)
    if epoch is not None:
        metrics["epoch"] = float(epoch["number"])
    return step, metrics


def _step_in(text: str) -> int | None:
    match = _STEP.search(text)
    return int(match["number"].replace(",", "")) if match else None


def _pairs(text: str) -> Iterator[tuple[str, float]]:
    for pattern in (_SPACED, _PAIR):
        for match in pattern.finditer(text):
            words = match["name"].lower().split()
            if words[-1] in _NO_METRICS:
                continue
            name = "_".join(words)
            if unit := match["unit"]:
                name = f"{name}_{_UNIT_NAMES.get(unit, unit.lower())}"
            yield name, number_in(match["number"])


def number_in(text: str) -> float:
    """Return the number that a pattern matched, without thousands separators.

    Raises:
        ValueError: it is not a number.
    """
    return float(text.replace(",", ""))
