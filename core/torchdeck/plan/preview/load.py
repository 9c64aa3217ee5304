"""What ranks are compared by: tokens where they are known, else samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Load:
    """Of a value that counts both, in arrays of the same shape."""

    samples: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.float64] | None

    @property
    def load(self) -> npt.NDArray[np.float64]:
        """Tokens where they are known, else samples."""
        return self.samples.astype(np.float64) if self.tokens is None else self.tokens

    @property
    def unit(self) -> str:
        """What `load` counts."""
        return "samples" if self.tokens is None else "tokens"
