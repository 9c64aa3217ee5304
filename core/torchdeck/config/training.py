"""The [training] table: the arithmetic of one optimizer step and how many there are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from torchdeck.options import Section, option

Beta = Annotated[float, Field(ge=0, lt=1)]


class Training(Section):
    """Training options of a recipe. A script or module reads its own arguments instead."""

    steps: int | None = option(
        "Number of optimizer steps. Set this or epochs.", default=None, unit="steps", ge=1, group="length"
    )
    epochs: float | None = option(
        "Passes over the training data; 0.5 is half of one. Set this or steps.",
        default=None,
        unit="epochs",
        gt=0,
        group="length",
    )
    microbatch: int = option(
        "Batch size per GPU: samples in one forward and backward pass of a rank.",
        label="Batch size per GPU",
        default=8,
        unit="samples",
        ge=1,
    )
    accumulation: int = option(
        "Gradient accumulation: microbatches per optimizer step on each rank. Ranks synchronise at "
        "the last one only.",
        label="Gradient accumulation",
        default=1,
        unit="microbatches",
        ge=1,
    )
    batch_plan: str | None = option(
        "Folder of a batch plan, which fixes order and microbatches of the data and replaces "
        "training.microbatch. A plan that packs or truncates samples needs a recipe with "
        "collate(samples, layout=None).",
        default=None,
        path=True,
        min_length=1,
        right="a folder that torchdeck batchplan build has written",
    )
    balance: Literal["none", "tokens", "attention"] = option(
        "How the microbatches of a step in a batch plan are shared among ranks: in turn, or so that "
        "tokens or attention cost are even. With training.accumulation = 1 there is no choice per "
        "step; only the totals even out.",
        label="Balance batches by",
        default="none",
    )

    optimizer: Literal["adamw", "adam", "sgd"] = option("The optimizer.", default="adamw", group="optimizer")
    lr: float = option(
        "Peak learning rate, at the reference batch.",
        label="Learning rate",
        default=1e-3,
        gt=0,
        group="optimizer",
    )
    weight_decay: float = option(
        "Weight decay of matrices. Vectors have none.", default=0.01, ge=0, group="optimizer"
    )
    betas: tuple[Beta, Beta] = option(
        "Adam's two averaging coefficients, each at least 0 and below 1.",
        label="Adam betas",
        default=(0.9, 0.999),
        group="optimizer",
        visible_if={"training.optimizer": ["adamw", "adam"]},
        strict=False,
        right="two numbers, each at least 0 and below 1, such as [0.9, 0.95]",
    )
    momentum: float = option(
        "Momentum of SGD.",
        default=0.0,
        ge=0,
        lt=1,
        group="optimizer",
        visible_if={"training.optimizer": ["sgd"]},
    )
    clip: float | None = option(
        "Gradient clipping: largest norm of the whole gradient. Default: no clipping.",
        label="Gradient clipping",
        default=None,
        gt=0,
        group="optimizer",
    )

    schedule: Literal["constant", "linear", "cosine"] = option(
        "Learning rate schedule after the warm-up.",
        label="Learning rate schedule",
        default="constant",
        group="schedule",
    )
    warmup_steps: int = option(
        "Steps in which the learning rate rises linearly to its peak.",
        default=0,
        unit="steps",
        ge=0,
        group="schedule",
    )
    min_lr_ratio: float = option(
        "Final learning rate, as a fraction of the peak.",
        label="Minimum learning rate ratio",
        default=0.1,
        ge=0,
        le=1,
        group="schedule",
        visible_if={"training.schedule": ["linear", "cosine"]},
    )
    scaling: Literal["none", "linear", "sqrt"] = option(
        "How the learning rate is scaled with the global batch size: not, in proportion, or by the "
        "square root.",
        label="Learning rate scaling",
        default="none",
        group="schedule",
    )
    reference_batch: int | None = option(
        "Global batch size at which lr is used as written. Default: microbatch × accumulation of one rank.",
        label="Reference batch size",
        default=None,
        unit="samples",
        ge=1,
        group="schedule",
        visible_if={"training.scaling": ["linear", "sqrt"]},
    )

    precision: Literal["fp32", "bf16", "fp16"] = option(
        "Mixed precision: number format of forward and backward passes. Weights stay fp32; fp16 "
        "uses a loss scaler.",
        label="Mixed precision",
        default="fp32",
        group="speed",
    )
    activation_checkpointing: bool = option(
        "Keep only the inputs of each block and recompute the rest in the backward pass: less "
        "memory, more time.",
        default=False,
        group="memory",
    )
    compile: bool = option(
        "Compile the model with torch.compile.", label="Compile the model", default=False, group="speed"
    )
    deterministic: bool = option(
        "Use deterministic kernels only: slower, and the same bits on the same machine.",
        label="Deterministic kernels",
        default=False,
        group="speed",
    )
    seed: int = option(
        "Seed of weights, sample order and dropout.", default=0, ge=0, le=2**63 - 1, group="seed"
    )

    eval_every: int | None = option(
        "Steps between evaluations on validation data, which also run at the end. Default: no evaluations.",
        label="Evaluate every",
        default=None,
        unit="steps",
        ge=1,
        group="evaluation",
    )
    eval_batches: int = option(
        "Microbatches of validation data per evaluation, over all ranks.",
        label="Evaluation batches",
        default=16,
        unit="microbatches",
        ge=1,
        group="evaluation",
    )
    patience: int | None = option(
        "End training after this many evaluations in a row without a better validation loss. Default: never.",
        label="Early stopping patience",
        default=None,
        unit="evaluations",
        ge=1,
        group="evaluation",
    )
    min_delta: float = option(
        "Minimum decrease of the validation loss that counts as better.",
        label="Early stopping margin",
        default=0.0,
        ge=0,
        group="evaluation",
    )
    ema: float | None = option(
        "Decay of a moving average of the weights, which evaluations use and checkpoints keep. "
        "Default: no average.",
        label="Weight averaging (EMA)",
        default=None,
        gt=0,
        lt=1,
        group="evaluation",
    )

    check_every: int | None = option(
        "Steps between comparisons of the weights on all ranks. A run with replica divergence is stopped.",
        label="Compare replicas every",
        default=100,
        unit="steps",
        ge=1,
        group="safety",
    )
