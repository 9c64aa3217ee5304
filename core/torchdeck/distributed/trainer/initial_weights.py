"""Initial weights of a recipe's model, from a file or folder: `model.init_from`, `init_names` and `init_new`.

Every recipe has these keys, a user's own one, too. The recipe itself does not see them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX
from torchdeck.distributed.exchange.exchanging import open_source
from torchdeck.distributed.exchange.source_checkpoint import Progress, Tensors, with_averages
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.environment import RunContext

INIT_FROM, INIT_NAMES, INIT_NEW = "init_from", "init_names", "init_new"
"""Keys in [model]."""

NamesOf = Callable[[Sequence[str]], Mapping[str, str]]
"""`init_names` of a recipe: the source's names → a map as in `model.init_names`."""


@dataclass(frozen=True)
class InitialWeights:
    """Where a model's first weights are from."""

    source: Path
    names: Mapping[str, str] = field(default_factory=dict)
    """Pattern of names in the source → name in the model, or "" for a tensor to leave out."""
    new: Sequence[str] = ()
    """Patterns of names in the model that keep the values it was built with."""


def take_initial_weights(options: dict[str, Any]) -> InitialWeights | None:
    """Remove the keys from a [model] table; None if it names no source.

    Raises:
        RecipeError: they are not a path, a table of names and a list of names.
    """
    source, names = options.pop(INIT_FROM, None), options.pop(INIT_NAMES, None) or {}
    new = options.pop(INIT_NEW, None) or []
    if source is None and not names and not new:
        return None
    if not isinstance(source, str) or not source:
        raise RecipeError(
            f"model.init_from is {source!r}: give the path of a checkpoint, an export, or a file of weights"
        )
    texts = isinstance(names, Mapping) and all(isinstance(text, str) for text in [*names, *names.values()])
    if not texts:
        raise RecipeError('model.init_names is no table of names: give {"name there" = "name here"}')
    if not isinstance(new, list) or not all(isinstance(text, str) for text in new):
        raise RecipeError('model.init_new is no list of names: give ["name", "layer.*"]')
    return InitialWeights(Path(source), names, tuple(new))


def load_initial_weights(model: nn.Module, start: InitialWeights, names_of: NamesOf | None = None) -> None:
    """Fill the model's parameters, and the buffers that the source has.

    The source is not read if its values would not be used: in a trace, whose tensors have no values, and in
    a run that resumes from a checkpoint of its own. Each rank reads by itself, as there is no strategy yet
    that could share the work.

    Args:
        model: on the CPU, as it was built.
        start: folder of a checkpoint or export, whose files are hashed first, or a file of weights
            (.safetensors, or a `torch.save` file that is read as data: nothing in it is executed).
        names_of: map of the recipe for sources whose names it knows. `start.names` comes first.

    Raises:
        RecipeError: it cannot be read, is damaged, or is of another model; the message names a tensor.
    """
    traced = type(torch.empty(0)) is not Tensor
    if traced or RunContext.from_env().resume is not None:
        return
    try:
        fill_model(model, start, names_of)
    except CheckpointError as error:
        raise RecipeError(f"model.init_from: {error}") from error


def fill_model(
    model: nn.Module,
    start: InitialWeights,
    names_of: NamesOf | None = None,
    *,
    ema: bool = False,
    progress: Progress = lambda *_: None,
) -> None:
    """Fill the model's parameters, and the buffers that the source has.

    Args:
        model: on the CPU, as it was built.
        start: as for `load_initial_weights`.
        names_of: as for `load_initial_weights`.
        ema: take the moving average of the weights.
        progress: called with the progress of hashing.

    Raises:
        CheckpointError: the source cannot be read, is damaged, or is of another model.
        RecipeError: a map of names is wrong.
    """
    try:
        whole = open_source(start.source, 1, trusted=False, progress=progress)
        found = (with_averages(start.source, whole) if ema else whole).tensors
    except (CheckpointError, OSError) as error:
        raise CheckpointError(f"{start.source} cannot be read: {error}") from error
    there = [name.removeprefix(MODEL_PREFIX) for name in found.specs if name.startswith(MODEL_PREFIX)]
    known = dict(names_of(there)) if names_of is not None else {}
    names = renamed(there, {**known, **start.names}, first=start.names)
    _fill(model, start.source, found, names, start.new)


def renamed(names: Iterable[str], patterns: Mapping[str, str], first: Iterable[str] = ()) -> dict[str, str]:
    """Return name in the model → name in the source, for every tensor of the source that is used.

    Args:
        names: names in the source. One that no pattern matches keeps its name.
        patterns: pattern → name in the model, "" to leave the tensor out. `*` stands for any text without a
            dot, `**` for any text; the first one in a name stands for what the first one in its pattern
            matched, and so on.
        first: patterns to try before the others.

    Raises:
        RecipeError: two tensors get the same name, a name has more wildcards than its pattern, or a pattern
            matches nothing.
    """
    order = list(dict.fromkeys([*first, *patterns]))
    compiled = [(pattern, _expression(pattern), patterns[pattern]) for pattern in order]
    for pattern, _, target in compiled:
        if len(_WILDCARD.findall(target)) > len(_WILDCARD.findall(pattern)):
            raise RecipeError(f'model.init_names: "{target}" has more * than "{pattern}"')
    found: dict[str, str] = {}
    used = set()
    for name in names:
        target = name
        for pattern, expression, wanted in compiled:
            match = expression.fullmatch(name)
            if match is not None:
                used.add(pattern)
                target = _filled(wanted, match.groups())
                break
        if target in found and target:
            raise RecipeError(f"model.init_names: {found[target]} and {name} both become {target}")
        found[target] = name
    unused = [pattern for pattern in first if pattern not in used]
    if unused:
        raise RecipeError(f'model.init_names: the source has no tensor "{unused[0]}"')
    found.pop("", None)
    return found


_WILDCARD = re.compile(r"\*\*?")


def _expression(pattern: str) -> re.Pattern[str]:
    parts = re.split(f"({_WILDCARD.pattern})", pattern)
    wild = {"*": "([^.]*)", "**": "(.*)"}
    return re.compile("".join(wild.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _filled(target: str, texts: Sequence[str]) -> str:
    left = iter(texts)
    return _WILDCARD.sub(lambda _: next(left), target)


def _kept(names: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that match a pattern of `model.init_new`.

    Raises:
        RecipeError: a pattern matches none.
    """
    kept: set[str] = set()
    for pattern in patterns:
        expression = _expression(pattern)
        found = {name for name in names if expression.fullmatch(name)}
        if not found:
            raise RecipeError(f'model.init_new: the model has no tensor "{pattern}"')
        kept |= found
    return kept


def _fill(
    model: nn.Module, source: Path, found: Tensors, names: Mapping[str, str], new: Sequence[str]
) -> None:
    """Copy tensors into the model; tied parameters are one, under any of their names."""
    state: dict[str, Tensor] = {}
    tied: defaultdict[int, list[str]] = defaultdict(list)
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor):
            state[name] = tensor
            tied[id(tensor)].append(name)
    kept = _kept(state, new)
    names = {here: there for here, there in names.items() if here not in kept}
    extra = [there for here, there in names.items() if here not in state]
    missing = [
        group[0]
        for group in tied.values()
        if isinstance(state[group[0]], nn.Parameter) and not (names.keys() | kept) & {*group}
    ]
    if missing:
        has = f"; it has {extra[0]}, which model.init_names may rename" if extra else ""
        raise CheckpointError(f"{source} is of another model: it has no {missing[0]}{has}")
    if extra:
        raise CheckpointError(
            f"{source} is of another model: this one has no {extra[0]}; give [model] the "
            f'sizes it was trained with, or leave the tensor out: model.init_names = {{"{extra[0]}" = ""}}'
        )
    for here, there in names.items():
        spec = found.specs[MODEL_PREFIX + there]
        if spec.shape != tuple(state[here].shape):
            raise CheckpointError(
                f"{source} is of another model: {there} is {spec.shape} there and "
                f"{tuple(state[here].shape)} here; give [model] the sizes it was trained with"
            )
    with torch.no_grad():
        for here, there in names.items():
            state[here].copy_(found.read(MODEL_PREFIX + there))
