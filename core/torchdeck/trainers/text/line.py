"""One printed line of a training program: its metrics, and what it says of step, total and epoch.

Known are the formats of widely used programs, and those by hand ("loss: 1.23", "loss=1.23 step=5"). Names
are converted to lower case with `_` for spaces, and the printed unit is appended ("time 12ms" is time_ms,
"mfu: 5%" is mfu_percent); keys of dict lines stay. Standard library, Python 3.10: the agent does this.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from torchdeck.trainers.text.progress_bars import Bar, find_bar, nesting

LINE_LIMIT = 8192
"""Maximum number of characters parsed per line; no program prints its loss further to the right."""
NAME_LIMIT = 128


@dataclass(frozen=True)
class Line:
    """Content of one line; None if it does not say."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics."""
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    """Epochs planned."""
    restarts: bool = False
    """`step` and `total` are those of the epoch, or may be."""
    from_zero: bool = False
    """The program counts epochs from 0."""
    bar: Bar | None = None
    is_record: bool = False
    """A dict that names its epoch and no step, as the Hugging Face Trainer prints it."""
    stage: str = ""
    """`validation`, `val`, `valid`, `eval`, `test` or `dev` for a line about held-out data."""

    @property
    def is_held_out(self) -> bool:
        """Whether all its metrics are of held-out data."""
        names = [name for name in self.values if name != "epoch"]
        return bool(self.stage) or all(map(is_held_out, names))


# every repeat has a bound, and none is nested in another that could match the same text: no line costs more
# than its length times a constant
_NUMBER = (
    r"[-+]?(?:\d{1,3}(?:,\d{3}){1,6}(?![\d,])(?:\.\d{1,30})?|\d{1,30}(?:\.\d{0,30})?(?:e[-+]?\d{1,4})?"
    r"|\.\d{1,30}(?:e[-+]?\d{1,4})?|nan\b|inf(?:inity)?\b)"
)
_WRAPPED = r"(?:tensor\(|np\.[a-z]{1,8}\d{0,3}\(|\[)?"
_UNIT = r"(?P<unit>%|ms|us|µs|min|s|[KMGT]i?B)?"
# not allowed after a number: more of a word, a clock time, a version, a date, a fraction
_END = r"(?![\w%]|[:.-]\d|[ \t]{0,2}/[ \t]{0,2}\d)"
_STAGE = (
    r"(?:(?:train|training|val|valid|validation|test|eval|dev|total|mean|avg|average|running|held-out|lm) )?"
)
_FLAGS = re.IGNORECASE | re.ASCII

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_HINT = re.compile(r"loss|step|iter|epoch|\d/\d|━|num_updates|\b(?:it|s)/(?:s|it)\b", re.IGNORECASE)
_DICT = re.compile(r"\{\s{0,4}['\"]")
_DICT_PAIR = re.compile(
    rf"(?P<quote>['\"])(?P<name>[^'\"]{{1,{NAME_LIMIT}}})(?P=quote)\s{{0,4}}:\s{{0,4}}"
    rf"['\"]?{_WRAPPED}(?P<number>{_NUMBER})\)?['\"]?\s{{0,4}}[,}}]",
    _FLAGS,
)
_DICT_FRACTION = re.compile(
    r"['\"]global_step/max_steps['\"]: ['\"](?P<step>\d{1,18})/(?P<total>\d{1,18})['\"]"
)
_STEP = re.compile(
    r"(?<![\w./-])(?P<word>(?:global[_ ]|train[_ ])?step|iter|iteration|num_updates)['\"]?[ \t:=\[(#]{1,16}"
    r"(?P<number>\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,18})(?:[ \t]{0,4}/[ \t]{0,8}(?P<total>\d{1,18}))?"
    r"(?![\w%]|[:.-]\d)",
    _FLAGS,
)
_EPOCH = re.compile(
    r"(?<![\w./-])epoch(?:\(\w{1,16}\))?[ \t:=\[(#]{1,8}(?P<number>\d{1,9}(?:\.\d{1,9})?)"
    r"(?:[ \t]{0,4}/[ \t]{0,4}(?P<epochs>\d{1,9}))?(?![\w%]|[:.-]\d)",
    _FLAGS,
)
_ITERATION = re.compile(  # [ 10/100] and [  50/1251 (  4%)] behind an epoch or at the front of a line
    r"\[[ \t]{0,16}(?P<number>\d{1,12})[ \t]{0,4}/[ \t]{0,4}(?P<total>\d{1,12})"
    r"(?:[ \t]{0,4}\([ \t]{0,4}\d{1,3}%\))?\]"
    r"|:[ \t]{1,16}(?P<number2>\d{1,12}) / (?P<total2>\d{1,12}) (?=\w)"
)
_TIMM = re.compile(r"Train: (?P<epoch>\d{1,9}) \[")
_SAMPLES = re.compile(r"^Train Epoch: ")
"""PyTorch's MNIST example and open_clip: the fraction is of samples, not of steps."""
_EPOCH_COLUMN = re.compile(r"^(?P<number>\d{1,6})/(?P<epochs>\d{1,6})[ \t]{1,16}(?=[\d.])")
"""Ultralytics: the label of its bar is a row of a table."""
_TORCHTUNE = re.compile(r"^(?P<epoch>\d{1,9})\|(?P<step>\d{1,18})\|Loss: ")
_PAIR = re.compile(
    rf"(?<![\w./-])(?P<name>{_STAGE}[a-z_][\w./@-]{{0,95}})(?P<in>\((?:ms|s|GiB|GB|MB)\))?\s{{0,16}}[:=]\s{{0,16}}"
    rf"{_WRAPPED}(?P<number>{_NUMBER})\)?{_UNIT}{_END}",
    _FLAGS,
)
# without ":" or "=" between, only known names are accepted: "train loss 2.1", "time 12.3ms"
_SPACED = re.compile(
    rf"(?<![\w./-])(?P<name>{_STAGE}loss|time|mfu|lr|ppl|perplexity|acc(?:@\d)?|accuracy|norm)[ \t]{{1,8}}"
    rf"(?P<number>{_NUMBER}){_UNIT}{_END}",
    _FLAGS,
)
_LOSS_OF = re.compile(  # litgpt: "loss train: 1.234, val: 2.345"
    rf"(?<![\w./-])loss train: (?P<train>{_NUMBER}){_END}(?:, val: (?P<val>{_NUMBER}){_END})?",
    _FLAGS,
)
_CELL = re.compile(  # between two "|": the whole text is the name, as Megatron prints it
    rf"^\s{{0,16}}(?P<name>[a-z][a-z0-9_/@-]{{0,47}}(?: [a-z][a-z0-9_/@-]{{0,47}}){{0,6}})"
    rf"(?: \((?P<in>[^()|]{{1,24}})\))?(?::\s{{0,24}}|\s{{1,16}})"
    rf"(?P<number>{_NUMBER}) ?{_UNIT}(?:\s{{0,4}}\([^()|]{{0,48}}\))?\s{{0,16}}$",
    _FLAGS,
)
_HELD_OUT = re.compile(
    r"\W{0,8}(?:(?P<validation>validat(?:e|ion|ing))|(?P<val>val)|(?P<valid>valid)|(?P<eval>eval(?:uat(?:e|ion|ing))?)"
    r"|(?P<test>test(?:ing)?)|(?P<dev>dev))\b(?![./-]\w)",
    re.IGNORECASE,
)
_HELD_OUT_EPOCH = re.compile(r"Epoch\((?:(?P<val>val)|(?P<test>test))\)")
_HELD_OUT_NAME = re.compile(
    r"(?:val|valid|validation|test|eval|dev|heldout|held-out)(?:[_./\- ]|$)", re.IGNORECASE
)
_TRAIN_NAME = re.compile(r"train(?:ing)?(?:[_./\- ]|$)", re.IGNORECASE)
_PLANNED = re.compile(
    r"total (?:optimization |training |train )steps[^=:\d]{0,40}[=:][ \t]{0,8}"
    r"(?P<total>\d{1,3}(?:,\d{3}){1,4}|\d{1,12})",
    _FLAGS,
)
"""As the examples of transformers, diffusers and kohya's scripts say it before they start."""
_STEP_KEYS = ("step", "global_step", "iter", "iteration", "current_steps", "num_updates")
_TOTAL_KEYS = ("total_steps", "max_steps")
_STEP_WORDS = (
    "step",
    "global_step",
    "global step",
    "train_step",
    "train step",
    "num_updates",
    "iteration",
    "iter",
)
"""The best first: a program that counts iterations and steps accumulates gradients."""
_NO_METRICS = frozenset(
    (
        *_STEP_KEYS,
        *_TOTAL_KEYS,
        *(
            "epoch",
            "v_num",
            "seed",
            "rank",
            "local_rank",
            "world_size",
            "port",
            "pid",
            "cuda",
            "eta",
            "steps",
            "train",
            "val",
            "test",
        ),
    )
)
_UNIT_NAMES = {"%": "percent", "µs": "us"}


def is_held_out(name: str) -> bool:
    """Return whether a metric is of held-out data, by its name."""
    return _HELD_OUT_NAME.match(name) is not None


def parse_line(line: str) -> Line | None:
    """Return what one printed line says of training; None if nothing. Never raises.

    For a progress bar that is redrawn (carriage returns), the last drawing counts.
    """
    drawn = line.rstrip("\r\n").rpartition("\r")[2][: 2 * LINE_LIMIT]
    text = _ANSI.sub("", drawn)[:LINE_LIMIT] if "\x1b" in drawn else drawn[:LINE_LIMIT]
    if "{" in text and _DICT.search(text) and (found := _from_dict(text)) is not None:
        return found
    if not _HINT.search(text):
        return None
    text = strip_prefix(text)
    bar = find_bar(text, depth=nesting(drawn))
    return _from_text(text) if bar is None else _from_bar(bar)


def _from_dict(text: str) -> Line | None:
    """Parse Hugging Face's {'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 0.1}, and similar JSON lines."""
    metrics = {match["name"]: number_in(match["number"]) for match in _DICT_PAIR.finditer(text)}
    if not any("loss" in name or name == "epoch" or name in _STEP_KEYS for name in metrics):
        return None
    step = _popped(metrics, _STEP_KEYS)
    total = _popped(metrics, _TOTAL_KEYS)
    fraction = _DICT_FRACTION.search(text)
    if fraction is not None:
        step, total = int(fraction["step"]), int(fraction["total"])
    epoch = metrics.get("epoch")
    if not metrics.keys() - {"epoch"}:
        return None
    return Line(metrics, step, total, epoch, is_record=step is None and epoch is not None)


def _popped(metrics: dict[str, float], keys: tuple[str, ...]) -> int | None:
    found = None
    for key in keys:
        value = metrics.pop(key, math.nan)
        if found is None and math.isfinite(value):
            found = int(value)
    return found


def _from_bar(bar: Bar) -> Line:
    """Parse the values and the epoch around a bar; its step is up to what other bars there are."""
    text = bar.rest
    metrics = dict(_pairs(text))
    own = _TORCHTUNE.match(bar.label)
    epoch = _EPOCH.search(bar.label) or _EPOCH_COLUMN.match(bar.label)
    line = Line(metrics, bar=bar, stage=_stage(bar.label), from_zero=bar.kind == "rich" or "v_num=" in text)
    if own is not None:
        return replace(line, step=int(own["step"]), epoch=float(own["epoch"]))
    if epoch is None:
        return line
    number = float(epoch["number"])
    return replace(
        line,
        values={**metrics, "epoch": number} if metrics else {},
        epoch=number,
        epochs=int(epoch["epochs"]) if epoch["epochs"] else None,
    )


def _from_text(text: str) -> Line | None:
    """Parse lines that name a loss, a step and another value, or an epoch alone."""
    planned = _PLANNED.search(text)
    if planned is not None:
        return Line(total=int(number_in(planned["total"])))
    stage = _stage(text)
    metrics = dict(_pairs(text))
    if stage:
        metrics = dict(_held_out(metrics, stage))
    line = _position(text, stage)
    if line.epoch is not None and metrics:
        metrics["epoch"] = line.epoch
    named = any("loss" in name for name in metrics)
    if not named and (line.step is None or not metrics):
        metrics = {}
    if not metrics and line.epoch is None and line.total is None:
        return None
    return replace(line, values=metrics, stage=stage)


def _position(text: str, stage: str) -> Line:
    """Return the step, total and epoch that a line names."""
    step, epoch = _best_step(text), _EPOCH.search(text)
    timm = _TIMM.match(text)
    number = float(timm["epoch"]) if timm else float(epoch["number"]) if epoch else None
    epochs = int(epoch["epochs"]) if epoch and epoch["epochs"] else None
    if step is not None:
        total = int(step["total"]) if step["total"] else None
        restarts = total is not None and epoch is not None and epoch.start() < step.start()
        return Line({}, int(step["number"].replace(",", "")), total, number, epochs, restarts=restarts)
    behind = timm.end() - 1 if timm else epoch.end() if epoch else 0
    iteration = None if stage or _SAMPLES.match(text) else _ITERATION.search(text, behind)
    if iteration is None or (number is None and "eta:" not in text):
        return Line({}, epoch=number, epochs=epochs)
    done = int(iteration["number"] or iteration["number2"])
    total = int(iteration["total"] or iteration["total2"])
    zero = timm is not None or (epoch is not None and epoch[0].lower().startswith("epoch: ["))
    return Line({}, done, total, number, epochs, restarts=number is not None, from_zero=zero)


def _best_step(text: str) -> re.Match[str] | None:
    """Return the word for a step that counts most, with its number."""
    found = None
    for match in _STEP.finditer(text):
        order = _STEP_WORDS.index(match["word"].lower())
        if found is None or order < _STEP_WORDS.index(found["word"].lower()):
            found = match
    return found


def _stage(text: str) -> str:
    match = _HELD_OUT.match(text) or _HELD_OUT_EPOCH.match(text)
    return "" if match is None else (match.lastgroup or "")


def _held_out(metrics: Mapping[str, float], stage: str) -> Iterator[tuple[str, float]]:
    for name, value in metrics.items():
        plain = _HELD_OUT_NAME.match(name) or _TRAIN_NAME.match(name) or name == "epoch"
        yield (name if plain else f"{stage}_{name}"), value


def _pairs(text: str) -> Iterator[tuple[str, float]]:
    if text.count("|") >= 2:
        cells = text.split("|")
        for cell in cells:
            match = _CELL.match(cell)
            if match is not None and (found := _named(match)) is not None:
                yield found
        text = "|".join(cell for cell in cells if not _CELL.match(cell))
    for match in _LOSS_OF.finditer(text):
        yield "train_loss", number_in(match["train"])
        if match["val"]:
            yield "val_loss", number_in(match["val"])
    text = _LOSS_OF.sub(" ", text)
    for pattern in (_SPACED, _PAIR):
        for match in pattern.finditer(text):
            if (found := _named(match)) is not None:
                yield found


def _named(match: re.Match[str]) -> tuple[str, float] | None:
    """Return the name, with its unit, and the number of a pair; None if it is no metric."""
    words = match["name"].lower().split()
    found = match.groupdict()
    unit = match["unit"] or found.get("in")
    if (words[-1] in _NO_METRICS and not unit) or ".py" in words[-1]:
        return None
    name = "_".join(words)
    if unit:
        name = f"{name}_{_UNIT_NAMES.get(unit, re.sub('[^a-z0-9]+', '_', unit.lower()))}"
    return name, number_in(match["number"])


def number_in(text: str) -> float:
    """Return the number that a pattern matched, without thousands separators.

    Raises:
        ValueError: it is not a number.
    """
    return float(text.replace(",", ""))


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
