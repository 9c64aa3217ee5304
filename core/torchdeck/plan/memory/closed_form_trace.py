"""Allocations of one forward and backward of a transformer without a trace, in torch's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from torchdeck.contract.plan.model_profile import ROOT, Event, Trace
from torchdeck.plan.memory.model_shape import ModelShape, ModelWeights, Weight

_FULL = 4
"""Bytes per element of fp32: weights, losses, statistics."""
_TOKEN_BYTES = 16
"""A token's number and its target's, int64 each."""


@dataclass(frozen=True)
class Activations:
    """Bytes that a block keeps for backward, by the terms of Korthikanti et al. 2022, section 4.1."""

    shape: ModelShape
    item: int
    """Bytes per element in the precision of the forward."""
    eager: bool
    """Whether attention keeps its matrix."""
    dropout: bool
    more_in_mlp: int = 0
    """Further tensors of the MLP's inner size that the activation function keeps."""

    @property
    def in_mlp(self) -> int:
        """Number of tensors of the MLP's inner size that are kept."""
        return (4 if self.shape.gated else 2) + self.more_in_mlp

    def stream(self, tokens: int, *, cast: bool) -> int:
        """Return the bytes of the residual stream: autocast leaves it in fp32, as it leaves the weights."""
        return tokens * self.shape.width * (self.item if cast else _FULL)

    def attention(self, tokens: int, *, cast: bool) -> int:
        """Return the bytes from the norm's input, s·b·h, to the projection's."""
        shape, item = self.shape, self.item
        # attention's inputs and output
        kept = tokens * item * (2 * shape.query_width + 2 * shape.kv_width)
        if self.eager:
            scores = tokens * shape.context * shape.heads
            kept += scores * (item + (1 + item) * self.dropout)
        else:
            kept += tokens * shape.heads * _FULL  # the logarithm of each row's sum
        if self.shape.head_norms:  # their input, and what they normalised in fp32
            kept += tokens * (shape.query_width + shape.kv_width) * (item + _FULL)
        return kept + self._half(tokens, readers=3, cast=cast)

    def mlp(self, tokens: int, *, cast: bool) -> int:
        """Return the bytes from the norm's input to the end of the block."""
        inner = tokens * self.item * self.shape.mlp_width
        return inner * self.in_mlp + self._half(tokens, readers=2, cast=cast)

    def inside_mlp(self, tokens: int) -> int:
        """Return the peak of an MLP's inner tensors if none is kept."""
        return tokens * self.item * (3 if self.shape.gated else 2) * self.shape.mlp_width

    def inside_norm(self, tokens: int, *, cast: bool) -> int:
        """Return what a norm keeps between its input and output.

        LayerNorm is one kernel, which keeps its mean and spread. torch's RMSNorm is made of several, which
        keep the normalised input and, for 16-bit input, both in fp32, but not the input itself.
        """
        if self.shape.layer_norm:
            return tokens * 2 * _FULL
        upcast = cast and self.item != _FULL
        return tokens * (_FULL + self.shape.width * (2 * _FULL - self.item if upcast else _FULL))

    def _half(self, tokens: int, *, readers: int, cast: bool) -> int:
        """Return the bytes that a norm keeps and outputs, and dropout's mask, one byte per element.

        Autocast copies the norm's output for each layer that reads it: `readers` if they are separate.
        """
        autocast = not cast and self.item != _FULL
        copies = readers if autocast and self.shape.gated else 1
        kept = tokens * self.shape.width * (copies * self.item + self.dropout)
        return kept + self.stream(tokens, cast=cast) + self.inside_norm(tokens, cast=cast)


class _Events:
    """Columns of a trace under construction."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []

    def mark(self, kind: Event, unit: int) -> None:
        self.rows.append((kind, unit, 0))

    def add(self, kind: Event, unit: int, *sizes: int) -> None:
        self.rows += [(kind, unit, size) for size in sizes]


@dataclass(frozen=True)
class _Pass:
    """One forward and backward under construction."""

    activations: Activations
    tokens: int
    cast: bool
    checkpointing: bool
    events: _Events
    trained: Mapping[str, int] | None

    def gradient(self, name: str, size: tuple[int, ...]) -> int:
        """Return the bytes of a weight's gradient."""
        if self.trained is not None:
            return self.trained.get(name, 0)
        return prod(size) * self.gradient_size

    @property
    def autocast(self) -> bool:
        """Whether weights are copied for the forward."""
        return not self.cast and self.activations.item != _FULL

    @property
    def stream(self) -> int:
        return self.activations.stream(self.tokens, cast=self.cast)

    @property
    def hidden(self) -> int:
        """Bytes of s·b·h in the precision of the forward."""
        return self.tokens * self.activations.shape.width * self.activations.item

    @property
    def attention(self) -> int:
        return self.activations.attention(self.tokens, cast=self.cast)

    @property
    def mlp(self) -> int:
        return self.activations.mlp(self.tokens, cast=self.cast)

    @property
    def gradient_size(self) -> int:
        """Bytes per element of a weight's gradient."""
        return self.activations.item if self.cast else _FULL


def closed_form_trace(
    activations: Activations,
    weights: ModelWeights,
    microbatch: int,
    *,
    cast: bool,
    checkpointing: bool,
    trained: Mapping[str, int] | None = None,
) -> Trace:
    """Return the trace of `microbatch` samples; units are the root and then the blocks.

    Args:
        activations: terms of a block.
        weights: weights of the model.
        microbatch: samples.
        cast: weights enter the forward in its precision.
        checkpointing: blocks are recomputed.
        trained: bytes of the gradient that replaces a weight's own, by the name of the weight, as with LoRA;
            weights that are not in it are frozen. None: all are trained.
    """
    tokens = microbatch * activations.shape.context
    events = _Events()
    blocks = weights.blocks
    run = _Pass(activations, tokens, cast, checkpointing, events, trained)
    events.add(Event.INPUT, ROOT, tokens * _TOKEN_BYTES)
    events.mark(Event.FORWARD_BEGIN, ROOT)
    events.add(Event.ACTIVATION, ROOT, run.stream)
    for unit, block in enumerate(blocks, 1):
        _block_forward(run, unit, _cast_bytes(run, block))
    _loss(run, weights)
    for unit in range(len(blocks), 0, -1):
        _block_backward(run, unit, blocks[unit - 1])
    _embedding_backward(run, weights)
    events.mark(Event.BACKWARD_END, ROOT)
    events.add(Event.INPUT, ROOT, -tokens * _TOKEN_BYTES)
    return Trace.of_rows(microbatch, events.rows, cast=cast, checkpointing=checkpointing)


def _cast_bytes(run: _Pass, block: Sequence[Weight]) -> int:
    """Return the bytes that autocast copies of a block: all but the norms."""
    if not run.autocast:
        return 0
    return sum(prod(size) for name, size in block if "norm" not in name) * run.activations.item


def _block_forward(run: _Pass, unit: int, copied: int) -> None:
    events, kept = run.events, run.attention + run.mlp
    events.mark(Event.FORWARD_BEGIN, unit)
    events.add(Event.CAST, unit, copied)
    if run.checkpointing:
        inside = run.activations.inside_mlp(run.tokens) + run.stream
        events.add(Event.ACTIVATION, unit, inside, run.stream, -inside)
    else:
        events.add(Event.ACTIVATION, unit, kept, run.hidden, -run.hidden)
    events.mark(Event.FORWARD_END, unit)


def _loss(run: _Pass, weights: ModelWeights) -> None:
    """Add last norm, logits and cross entropy, forward and backward: three times s·b·V numbers in fp32."""
    events, shape = run.events, run.activations.shape
    half = run.activations.item != _FULL
    logits, full = run.tokens * shape.vocabulary * run.activations.item, run.tokens * shape.vocabulary * _FULL
    weight = shape.vocabulary * shape.width
    copied = weight * run.activations.item * run.autocast
    norm = run.activations.inside_norm(run.tokens, cast=run.cast)
    events.add(Event.LOGITS, ROOT, run.hidden + norm)
    events.add(Event.CAST, ROOT, copied)
    events.add(Event.LOGITS, ROOT, logits)
    events.mark(Event.FORWARD_END, ROOT)
    events.add(Event.LOGITS, ROOT, full * half, full, -full * half, -logits)
    for unit, block in enumerate(weights.blocks, 1):
        if run.checkpointing:
            events.add(Event.CAST, unit, -_cast_bytes(run, block))
    events.mark(Event.BACKWARD_BEGIN, ROOT)
    events.add(Event.ACTIVATION, ROOT, full, full, -full)
    events.add(Event.LOGITS, ROOT, -full)
    events.add(Event.ACTIVATION, ROOT, logits * half, -full * half)
    # the gradient of the last block's output, then of the output layer's weight
    events.add(Event.ACTIVATION, ROOT, run.stream)
    events.add(Event.CAST, ROOT, -copied)
    own = [*weights.after, *(weights.before[:1] if shape.tied else ())]
    events.add(Event.GRADIENT, ROOT, sum(run.gradient(name, size) for name, size in own))
    events.add(Event.ACTIVATION, ROOT, -logits)
    events.add(Event.LOGITS, ROOT, -run.hidden - norm)
    events.add(Event.ACTIVATION, ROOT, -run.stream)  # the last block's output, which the last norm kept


def _embedding_backward(run: _Pass, weights: ModelWeights) -> None:
    """Add a tied embedding's gradient to that of the output layer."""
    events, shape = run.events, run.activations.shape
    for index, (name, size) in enumerate(weights.before):
        gradient = run.gradient(name, size)
        if shape.tied and index == 0:
            events.add(Event.ACTIVATION, ROOT, gradient, -gradient)
        else:
            events.add(Event.GRADIENT, ROOT, gradient)
    events.add(Event.ACTIVATION, ROOT, -run.stream)


def _block_backward(run: _Pass, unit: int, block: Sequence[Weight]) -> None:
    """Add MLP and then attention, from their ends; what a layer kept is freed once its weights have
    gradients.

    A block's output is kept by the next one, and freed with it; here its input is.
    """
    events, activations = run.events, run.activations
    shape, row = activations.shape, run.tokens * activations.item
    events.mark(Event.BACKWARD_BEGIN, unit)
    if run.checkpointing:
        events.add(Event.CAST, unit, _cast_bytes(run, block))
        events.add(Event.ACTIVATION, unit, run.attention + run.mlp - run.stream)
    inner = row * shape.mlp_width
    layers = inner * activations.in_mlp
    incoming = run.hidden * run.autocast  # the stream's gradient in the precision of the layer
    events.add(Event.ACTIVATION, unit, incoming + inner)
    _weight_gradients(run, unit, block, ("mlp.down", "rest"), inner)
    grown = inner * (2 if shape.gated else 1)  # gradients of the components of the last layer's input
    events.add(Event.ACTIVATION, unit, grown, -inner, inner - layers)
    _weight_gradients(run, unit, block, ("mlp.up", "mlp.gate", "mlp_norm"), run.hidden)
    events.add(Event.ACTIVATION, unit, -grown, layers + run.hidden - run.mlp)
    mixed, heads = row * shape.query_width, row * (shape.query_width + 2 * shape.kv_width)
    events.add(Event.ACTIVATION, unit, mixed)
    _weight_gradients(run, unit, block, ("attention.out",), mixed)
    between = run.attention - run.stream - run.hidden - mixed
    events.add(Event.ACTIVATION, unit, heads, -mixed, -between)
    names = ("attention.query", "attention.key", "attention.value", "attention_norm")
    _weight_gradients(run, unit, block, names, run.hidden)
    events.add(Event.ACTIVATION, unit, -run.stream, -heads - incoming)
    events.mark(Event.BACKWARD_END, unit)


def _weight_gradients(
    run: _Pass, unit: int, block: Sequence[Weight], names: Sequence[str], kept: int
) -> None:
    """Add gradients of the weights that begin with `names`; what their layer kept is freed after the first.

    Autocast makes each in the layer's precision first, and in fp32 once the layer is done.
    """
    weights = [weight for name in names for weight in block if weight[0].startswith(name)]
    for index, (name, size) in enumerate(weights):
        gradient = run.gradient(name, size)
        copied = prod(size) * run.activations.item * (run.autocast and "norm" not in name)
        copied *= run.trained is None
        freed = kept if index == 0 else 0
        if copied:
            run.events.add(Event.ACTIVATION, unit, copied, -freed)
            run.events.add(Event.CAST, unit, -copied)
            run.events.add(Event.GRADIENT, unit, gradient)
            run.events.add(Event.ACTIVATION, unit, -copied)
        else:
            run.events.add(Event.GRADIENT, unit, gradient)
            run.events.add(Event.ACTIVATION, unit, -freed)
