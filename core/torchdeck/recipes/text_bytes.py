"""Text as bytes: a corpus read in an order that is the same everywhere, and its windows as samples."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from torchdeck.contract.bounded_file import open_regular
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.text_files import STDLIB, ordered_files

Corpus = npt.NDArray[np.uint8]
"""Text, one element per byte, shape (bytes,)."""

BYTES = 256
"""Number of values of a byte."""

_SEPARATOR = b"\n"
_SNIFFED = 4096


class ByteWindows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Consecutive windows of `context` bytes, each with the bytes that come next.

    Sample i is (x, y), both int64 of shape (context,): x = text[i·context : (i+1)·context], y the same
    shifted by one byte. A remainder shorter than a window is dropped.
    """

    def __init__(self, text: Corpus, context: int) -> None:
        self._text = text
        self._context = context

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the text, by which a checkpoint recognises the same text."""
        return f"text-{hashlib.sha256(self._text.data).hexdigest()}"

    def __len__(self) -> int:
        return max(0, (len(self._text) - 1) // self._context)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} is out of range: there are {len(self)}")
        start = index * self._context
        window = torch.from_numpy(self._text[start : start + self._context + 1].astype(np.int64))
        return window[:-1], window[1:]


def build_windows(
    source: str, split: str, *, context: int, heldout: float = 0.05, max_bytes: int | None = None
) -> ByteWindows | None:
    """Build the windows of one split; None for "heldout" if nothing is held out.

    Args:
        source: "stdlib", or the path of a file or folder.
        split: "train" or "heldout".
        context: length of a sample in bytes.
        heldout: fraction of the text, its tail, that is never trained on.
        max_bytes: maximum length of the text used; None: all.

    Raises:
        RecipeError: there is no such text, or a split is shorter than one sample.
    """
    text = read_corpus(source, max_bytes)
    part = split_range(len(text), split, context=context, heldout=heldout, source=source, unit="bytes")
    if part is None:
        return None
    own = text[part.start : part.stop]
    # a view of the small part would keep the whole text in memory a second time
    return ByteWindows(own.copy() if split == "heldout" else own, context)


def split_range(
    size: int, split: str, *, context: int, heldout: float, source: str, unit: str
) -> range | None:
    """Return the range of `size` bytes or tokens that belongs to a split; None for "heldout" if nothing is
    held out.

    Args:
        size: size of the whole.
        split: "train", from the beginning, or "heldout", at the end.
        context: length of a sample.
        heldout: fraction that is held out.
        source: source name for messages.
        unit: "bytes" or "tokens".

    Raises:
        RecipeError: the range is shorter than a sample and the element after it.
    """
    cut = size - int(size * heldout)
    if split == "heldout" and cut == size:
        return None
    part = range(cut) if split == "train" else range(cut, size)
    if len(part) < context + 1:
        raise RecipeError(
            f"the {split} part of {source} has {len(part)} {unit}, too few for one sample of {context} "
            f"{unit} and the {unit.removesuffix('s')} after it: give more, or lower model.context to at "
            f"most {max(1, len(part) - 1)}"
        )
    return part


def read_corpus(source: str, max_bytes: int | None = None) -> Corpus:
    """Return all text of `source`, files in the order of the SHA-256 of their relative paths.

    That order is the same on every machine and mixes the folders, so a prefix (`max_bytes`) and a tail (the
    validation part) are both representative of the whole.

    Raises:
        RecipeError: the source does not exist, cannot be read, or holds no text.
    """
    root = Path(sysconfig.get_paths()["stdlib"]) if source == STDLIB else Path(source)
    if not root.exists():
        raise RecipeError(
            f'data.source {source} does not exist: give "{STDLIB}", or the path of a file or folder'
        )
    suffix = ".py" if source == STDLIB else None
    text = bytearray()
    try:
        for path in ordered_files(root, suffix):
            with open_regular(path) as file:
                content = file.read()
            if b"\0" in content[:_SNIFFED]:
                continue
            text += content + _SEPARATOR
            if max_bytes is not None and len(text) >= max_bytes:
                del text[max_bytes:]
                break
    except OSError as error:
        raise RecipeError(f"data.source {source} cannot be read: {error}") from error
    if len(text) <= len(_SEPARATOR):
        raise RecipeError(f"data.source {source} holds no text: give a file or folder with text in it")
    return np.frombuffer(text, dtype=np.uint8)
