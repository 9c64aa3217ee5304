"""Options of every built-in recipe for the weights that its model starts from."""

from __future__ import annotations

from typing import Any

from torchdeck.options import option


def init_from_option() -> Any:
    """Declare `model.init_from`."""
    return option(
        "Initial weights: a checkpoint or an export of a model of the same sizes, or a file of weights "
        "(.safetensors, or .pt, in which nothing is executed). Default: new weights. A resume does not read "
        "it.",
        label="Initial weights",
        default=None,
        path=True,
        min_length=1,
        right="the folder of a checkpoint or export, or a .safetensors or .pt file",
    )


def init_new_option() -> Any:
    """Declare `model.init_new`."""
    return option(
        "Tensors that begin with new values, although init_from may have them, such as the last layer for "
        "other classes. * stands for any text without a dot, ** for any text.",
        label="Layers with new weights",
        default=[],
        right='a list of names, such as ["fc.*"]',
    )


def init_names_option() -> Any:
    """Declare `model.init_names`."""
    return option(
        "Names in init_from that differ: name there = name here, or an empty text to leave a tensor out. * "
        "stands for any text without a dot, ** for any text.",
        label="Names of initial weights",
        default={},
        right='a table of names, such as {"transformer.h.*.ln_1.weight" = "blocks.*.attention_norm.weight"}',
    )
