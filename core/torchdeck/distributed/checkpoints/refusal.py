"""Why torch refused a file that it reads as tensors alone, in words that leader nobody to trust it."""

from __future__ import annotations

import pickle
import re

_ASKED = re.compile(r"GLOBAL ([\w.]+)")


def refusal(error: BaseException) -> str:
    """`error` of `torch.load(weights_only=True)` as part of a sentence.

    torch's own text advises to read the file without `weights_only`, which would run what is in it.
    """
    text = str(error).strip()
    if isinstance(error, pickle.UnpicklingError):
        asked = _ASKED.search(text)
        if asked is not None:
            return f"it is refused: it asks for {asked.group(1)}, which tensors never need"
        return "it is damaged, or not a file of tensors"
    return (text.splitlines() or [type(error).__name__])[0]
