"""Data and loss shared by all recipes that predict the next byte or token of a text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from torchdeck.data.batch_plan.files.length_files import NPY_FAULTS
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.text_bytes import BYTES, ByteWindows, build_windows, split_range
from torchdeck.recipes.text_files import STDLIB

CONTEXT = 128
"""Default length of a sample if [model] does not set it."""


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] table with the model's sample length and vocabulary."""
    return {"context": model.get("context", CONTEXT), "vocabulary": model.get("vocabulary", BYTES), **data}


def build_data(options: dict[str, Any], split: str) -> ByteWindows | TokenWindows | None:
    """Build windows of a text (source, max_bytes) or of a file of tokens (tokens, token_dtype); both use
    heldout.

    Raises:
        RecipeError: there is no such text or file, or it is too short.
    """
    context, heldout = options["context"], options.get("heldout", 0.05)
    tokens = options.get("tokens")
    if tokens is None:
        source, most = options.get("source", STDLIB), options.get("max_bytes")
        return build_windows(source, split, context=context, heldout=heldout, max_bytes=most)
    dtype, vocabulary = options.get("token_dtype", "uint16"), options.get("vocabulary", BYTES)
    return build_token_windows(
        tokens, split, context=context, vocabulary=vocabulary, dtype=dtype, heldout=heldout
    )


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """Return the mean cross entropy in nats per byte or token, and their number."""
    tokens, targets = batch
    logits = model(tokens)
    mean = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return mean, targets.numel()


# Tokens made by another program, read in place: a file of integers, mapped into memory.

Tokens = npt.NDArray[np.integer[Any]]
"""Shape (tokens,), mapped from a file."""

DTYPES = ("uint8", "uint16", "uint32")
"""Possible types of the numbers in a file without a header, little-endian."""

_PROBES = 64
_PROBED = 4096


class TokenWindows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Consecutive windows of `context` tokens, each with the tokens that come next.

    Sample i is (x, y), both int64 of shape (context,): x = tokens[i·context : (i+1)·context], y the same
    shifted by one token. A remainder shorter than a window is dropped. Tokens are compared with the
    vocabulary as they are read, so that a file of any size opens at once.

    Args:
        tokens: tokens of the whole file.
        part: range of tokens that belongs to the data set.
        context: length of a sample.
        vocabulary: tokens are below it.
        path: path of the file, for messages.
    """

    def __init__(self, tokens: Tokens, part: range, context: int, vocabulary: int, path: Path) -> None:
        self._tokens = tokens
        self._part = part
        self._context = context
        self._vocabulary = vocabulary
        self._path = path

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the tokens, all of which pickle would write: a worker that is not forked
        maps them too.
        """
        return {**self.__dict__, "_tokens": self._tokens.dtype.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _tokens=open_tokens(state["_path"], state["_tokens"]))

    @property
    def fingerprint(self) -> str:
        """Size and type, and a hash over pieces of the file: reading all of it may take too long."""
        tokens = self._tokens
        digest = hashlib.sha256()
        for start in sorted({len(tokens) * probe // _PROBES for probe in range(_PROBES)}):
            digest.update(tokens[start : start + _PROBED].tobytes())
        return (
            f"tokens-{len(tokens)}-{tokens.dtype}-{self._part.start}:{self._part.stop}-{digest.hexdigest()}"
        )

    def __len__(self) -> int:
        return max(0, (len(self._part) - 1) // self._context)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} is out of range: there are {len(self)}")
        start = self._part.start + index * self._context
        window = np.asarray(self._tokens[start : start + self._context + 1]).astype(np.int64)
        self._check(window, start)
        tokens = torch.from_numpy(window)
        return tokens[:-1], tokens[1:]

    def _check(self, window: npt.NDArray[np.int64], start: int) -> None:
        wrong = np.flatnonzero((window < 0) | (window >= self._vocabulary))
        if len(wrong):
            raise RecipeError(
                f"token {window[wrong[0]]} at position {start + int(wrong[0])} of {self._path} is outside of "
                f"the vocabulary of {self._vocabulary}: raise model.vocabulary, or check data.token_dtype"
            )


def build_token_windows(
    path: str, split: str, *, context: int, vocabulary: int, dtype: str = "uint16", heldout: float = 0.05
) -> TokenWindows | None:
    """Build the windows of one split of a token file; None for "heldout" if nothing is held out.

    Args:
        path: path of a `.npy` file with one axis of integers, or of numbers without a header.
        split: "train" or "heldout".
        context: length of a sample in tokens.
        vocabulary: tokens are below it.
        dtype: one of DTYPES, for a file without a header.
        heldout: fraction of the tokens, at the end, that is never trained on.

    Raises:
        RecipeError: there is no such file, it holds something else, or a split is shorter than one sample.
    """
    tokens = open_tokens(Path(path), dtype)
    part = split_range(len(tokens), split, context=context, heldout=heldout, source=path, unit="tokens")
    return None if part is None else TokenWindows(tokens, part, context, vocabulary, Path(path))


def open_tokens(path: Path, dtype: str) -> Tokens:
    """Map the tokens of a file.

    Raises:
        RecipeError: it cannot be read, or is not a list of integers.
    """
    try:
        if path.suffix == ".npy":
            tokens: Tokens = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            tokens = np.memmap(path, dtype=np.dtype(_checked(dtype)).newbyteorder("<"), mode="r")
    except (OSError, *NPY_FAULTS) as error:
        raise RecipeError(f"data.tokens {path} cannot be read as tokens: {error}") from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
        raise RecipeError(
            f"data.tokens {path} holds {tokens.dtype} of shape {tokens.shape}: give whole numbers of shape "
            "(tokens,)"
        )
    return tokens


def _checked(dtype: str) -> str:
    if dtype not in DTYPES:
        raise RecipeError(f"data.token_dtype is {dtype!r}: expected {', '.join(DTYPES)}")
    return dtype
