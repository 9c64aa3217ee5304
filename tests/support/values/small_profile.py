"""A model of a root and two units with a trace that can be followed by hand."""

from torchdeck.contract.plan.model_profile import ROOT, Event, ModelProfile, TensorInfo, Trace

HEAD, BLOCK = 100, 1000
"""Elements of the root's weight, shape (10, 10), and of each block's, shape (50, 20)."""
INPUT, KEPT, LOGITS = 64, 500, 80
"""Bytes a sample: of the batch, of what a block keeps for backward, and of what comes after the blocks."""


def trace(microbatch: int = 1, *, cast: bool = False, checkpointing: bool = False, item: int = 4) -> Trace:
    """Forward through both blocks, then the head, then back; `item`: bytes of an element of a gradient."""
    inputs, kept, logits = INPUT * microbatch, KEPT * microbatch, LOGITS * microbatch
    rows = [
        (Event.INPUT, ROOT, inputs),
        (Event.FORWARD_BEGIN, ROOT, 0),
        (Event.FORWARD_BEGIN, 1, 0),
        (Event.ACTIVATION, 1, kept),
        (Event.FORWARD_END, 1, 0),
        (Event.FORWARD_BEGIN, 2, 0),
        (Event.ACTIVATION, 2, kept),
        (Event.FORWARD_END, 2, 0),
        (Event.LOGITS, ROOT, logits),
        (Event.FORWARD_END, ROOT, 0),
        (Event.BACKWARD_BEGIN, ROOT, 0),
        (Event.GRADIENT, ROOT, HEAD * item),
        (Event.LOGITS, ROOT, -logits),
        (Event.BACKWARD_BEGIN, 2, 0),
        (Event.GRADIENT, 2, BLOCK * item),
        (Event.ACTIVATION, 2, -kept),
        (Event.BACKWARD_END, 2, 0),
        (Event.BACKWARD_BEGIN, 1, 0),
        (Event.GRADIENT, 1, BLOCK * item),
        (Event.ACTIVATION, 1, -kept),
        (Event.BACKWARD_END, 1, 0),
        (Event.BACKWARD_END, ROOT, 0),
        (Event.INPUT, ROOT, -inputs),
    ]
    return Trace.of_rows(microbatch, rows, cast=cast, checkpointing=checkpointing)


def profile(*traces: Trace, precision: str = "fp32") -> ModelProfile:
    """The model, with the trace of one sample where none is given."""
    return ModelProfile(
        source="traced",
        parameters=(
            TensorInfo("head.weight", (10, 10), "float32", trainable=True, unit=ROOT),
            TensorInfo("blocks.0.weight", (50, 20), "float32", trainable=True, unit=1),
            TensorInfo("blocks.1.weight", (50, 20), "float32", trainable=True, unit=2),
        ),
        buffers=(TensorInfo("scale", (4,), "float32", trainable=False, unit=ROOT),),
        units=("", "blocks.0", "blocks.1"),
        precision=precision,
        traces=traces or (trace(),),
    )
