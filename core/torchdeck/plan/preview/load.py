"""Unit by which ranks are compared: tokens if known, else samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Load:
    """Load of a value that counts both, in arrays of the same shape."""

    samples: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.float64] | None

    @property
    def load(self) -> npt.NDArray[np.float64]:
        """Tokens if known, else samples."""
        return self.samples.astype(np.float64) if self.tokens is None else self.tokens

    @property
    def unit(self) -> str:
        """Unit of `load`."""
        return "samples" if self.tokens is None else "tokens"
