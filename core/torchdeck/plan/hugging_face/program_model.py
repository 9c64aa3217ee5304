"""A program's model with its training: what the memory of its ranks is predicted from, and how roughly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchdeck.contract.plan.model_profile import ModelProfile, TensorInfo
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.hugging_face.adapters import (
    adapted_tensors,
    adapter_gradients,
    largest_matrix,
    lora_targets,
    whole_tensors,
)
from torchdeck.plan.hugging_face.config_keys import kept_by_activation
from torchdeck.plan.hugging_face.model_weights import model_weights
from torchdeck.plan.hugging_face.program_training import (
    ProgramTraining,
    has_unknown_type,
    in_bf16,
    program_training,
    upcasts,
)
from torchdeck.plan.memory.closed_form_profile import FORMULA, SOURCE
from torchdeck.plan.memory.closed_form_trace import Activations, closed_form_trace
from torchdeck.plan.memory.model_shape import ModelWeights
from torchdeck.plan.memory.predict import verdict
from torchdeck.plan.memory.spec import PRECISION_SIZES, ZERO
from torchdeck.plan.memory.suggest import Suggestion
from torchdeck.quantities import size
from torchdeck.trainers.program_settings import ProgramSettings

_CLOSE = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "granite", "gpt2", "opt")
"""Families whose activations were compared with real ones, and were off by 3 % of the peak at most."""
_NEAR, _FAR = 0.05, 0.25
"""Share of activations that may be needed less or more: of those families, and of others."""
_FROZEN = 0.4
"""Share of activations that frozen weights may not need, as they keep no input for a gradient of their own.
With LoRA on two matrices of each block of a Llama 30 MiB of 164 were seen less.
"""
_TERMS = ("activations", "logits", "casts")


@dataclass(frozen=True)
class ProgramModel:
    """A model as a program trains it."""

    training: ProgramTraining
    profile: ModelProfile
    below: float
    """Share of activations by which the peak may be smaller."""
    above: float
    """Share by which it may be larger."""
    dequantized: int = 0
    """Bytes of a quantized matrix in the forward's precision, which exist while it is used."""


def program_models(
    values: Mapping[str, Any], settings: ProgramSettings, name: str, *, trl: bool
) -> tuple[ProgramModel, ...]:
    """Return the model of a config.json as a program trains it; two if the type of its weights is unknown,
    the smaller first.

    Args:
        values: content of the config.json.
        settings: settings of the program.
        name: name of the file, for a person.
        trl: the trainer is TRL's.

    Raises:
        UnknownModelError, UnknownTrainingError: the model or its training is not known.
    """
    file_type = str(values.get("dtype") or values.get("torch_dtype") or "")
    training = program_training(settings, file_type, trl=trl)
    found = [_model(values, training, settings, name)]
    fixed = training.kind in ZERO or upcasts(training.kind, settings)
    if has_unknown_type(settings, file_type) and not fixed:
        stored = program_training(settings, "float32", trl=trl).precision
        small = program_training(_with_type(settings), file_type, trl=trl)
        if (small.stored, small.precision) != (training.stored, stored):
            found.insert(0, _model(values, small, settings, name))
    return tuple(found)


def _with_type(settings: ProgramSettings) -> ProgramSettings:
    """Return the settings as if weights were loaded in the type of the file."""
    from torchdeck.trainers.arguments import Named

    return replace(settings, weights=Named("auto", ""))


def _model(
    values: Mapping[str, Any], training: ProgramTraining, settings: ProgramSettings, name: str
) -> ProgramModel:
    targets = "" if settings.lora_targets is None else settings.lora_targets.value
    share = _NEAR if values.get("model_type") in _CLOSE else _FAR
    below = max(share, _FROZEN) if training.lora_rank is not None else share
    copied = 0
    if training.quantized is not None:
        copied = largest_matrix(model_weights(values)) * PRECISION_SIZES[training.precision]
    return ProgramModel(training, program_profile(values, training, targets, name), below, share, copied)


def bf16_profile(values: Mapping[str, Any], model: ProgramModel, targets: str, name: str) -> ModelProfile:
    """Return the profile of the same model under bf16 mixed precision, for a suggestion."""
    return program_profile(values, in_bf16(model.training), targets, name)


def ranged(
    groups: Sequence[PredictedMemory],
    model: ProgramModel,
    upper: Sequence[PredictedMemory] = (),
    most: ProgramModel | None = None,
) -> tuple[PredictedMemory, ...]:
    """Return predictions with the range in which the peak is expected.

    Args:
        groups: predictions for `model`.
        model: the model that needs least.
        upper: predictions for `most`.
        most: the model that needs most, if the type of the weights is unknown.
    """
    found = []
    for group in groups:
        activations = sum(group.terms.get(term, 0) for term in _TERMS)
        low = group.peak_bytes - round(model.below * activations)
        high = group.high_bytes + round(model.above * activations) + model.dequantized
        first = group.ranks[0][0]
        for other in upper if most is not None else ():
            if any(begin <= first <= end for begin, end in other.ranks):
                more = sum(other.terms.get(term, 0) for term in _TERMS)
                high = max(high, other.high_bytes + round((most or model).above * more))
        said = verdict(low, high, group.capacity_bytes, group.free_bytes)
        found.append(replace(group, low_bytes=low, high_bytes=high, verdict=said))
    return tuple(found)


def by_own_names(suggestion: Suggestion, names: Mapping[str, str]) -> Suggestion:
    """Return `suggestion` in the program's own names of its settings."""
    change = {names.get(key, key): _own_value(key, value) for key, value in suggestion.change.items()}
    settings = ", ".join(
        f"{name} {value}" if name.startswith("-") else f"{name}: {value}" for name, value in change.items()
    )
    price = suggestion.sentence.rpartition(" (")[2]
    sentence = f"{settings}: {size(suggestion.peak_bytes)} at the peak ({price}"
    return replace(suggestion, change=change, sentence=sentence)


def _own_value(key: str, value: Any) -> Any:
    if key in ("distributed.strategy", "distributed.fsdp.reshard_after_forward"):
        return "full_shard"
    if key == "distributed.deepspeed.offload_optimizer":
        return "cpu"
    if key == "training.precision":
        return "true"
    return str(value).lower() if isinstance(value, bool) else value


_LONGEST_ASSUMED = 1024
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def program_profile(
    values: Mapping[str, Any], training: ProgramTraining, targets: str, name: str
) -> ModelProfile:
    """Return the profile of the model that a parsed config.json describes.

    Args:
        values: content of the config.json.
        training: how the program trains it.
        targets: modules with LoRA adapters, in the program's words; empty: peft's default.
        name: name of the file, for a person.

    Raises:
        UnknownModelError: the model is not known.
    """
    weights = model_weights(values)
    longest = weights.shape.context
    sequence = training.sequence or _LONGEST_ASSUMED
    if weights.shape.positions or training.sequence is None:
        sequence = min(sequence, longest)
    weights = replace(weights, shape=replace(weights.shape, context=sequence))
    notes = [
        f"{weights.parameters:,} parameters by {name}; {FORMULA}",
        f"samples are assumed to have {sequence:,} tokens; shorter ones need less",
    ]
    dtype = _DTYPES[training.stored]
    trained: dict[str, int] | None = None
    tensors: tuple[TensorInfo, ...] = whole_tensors(weights, dtype)
    if training.lora_rank is not None:
        chosen = lora_targets(str(values.get("model_type")), training.lora_rank, targets)
        flat = training.kind in ZERO
        engine = _DTYPES[training.precision] if flat else dtype
        tensors = adapted_tensors(weights, engine, chosen, training.quantized, flat=flat)
        trained = adapter_gradients(weights, chosen)
        if chosen.unknown:
            notes.append(f"unknown LoRA targets are left out: {', '.join(chosen.unknown)}")
    if training.assumed:
        notes.append(f"not given by the program, so assumed: {', '.join(training.assumed)}")
    return ModelProfile(
        source=SOURCE,
        parameters=tensors,
        buffers=(),
        units=("", *(f"blocks.{index}" for index in range(len(weights.blocks)))),
        precision=training.precision,
        traces=_traces(values, weights, training, trained),
        tokens_per_sample=float(sequence),
        notes=tuple(notes),
        facts={"parameters": weights.parameters},
    )


def _traces(
    values: Mapping[str, Any],
    weights: ModelWeights,
    training: ProgramTraining,
    trained: Mapping[str, int] | None,
) -> tuple[Any, ...]:
    """Return traces of the micro-batch and of another, from which others follow, with and without casts and
    checkpointing.
    """
    activations = Activations(
        weights.shape,
        PRECISION_SIZES[training.precision],
        eager=training.eager,
        dropout=False,
        more_in_mlp=kept_by_activation(values),
    )
    size = training.microbatch
    casts = (False,) if training.precision == "fp32" else (False, True)
    return tuple(
        closed_form_trace(activations, weights, count, cast=cast, checkpointing=again, trained=trained)
        for count in (size, size // 2 or 2)
        for cast in casts
        for again in (False, True)
    )
