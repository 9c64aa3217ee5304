"""Explains why torch rejected a file read with `weights_only`, without advising anyone to trust it."""

from __future__ import annotations

import pickle
import re

_ASKED = re.compile(r"GLOBAL ([\w.]+)")


def refusal(error: BaseException) -> str:
    """Return `error` of `torch.load(weights_only=True)` as part of a sentence.

    torch's own text advises reading the file without `weights_only`, which would execute its content.
    """
    text = str(error).strip()
    if isinstance(error, pickle.UnpicklingError):
        asked = _ASKED.search(text)
        if asked is not None:
            return f"it is refused: it asks for {asked.group(1)}, which tensors never need"
        return "it is damaged, or not a file of tensors"
    return (text.splitlines() or [type(error).__name__])[0]
