"""Objects with `forward`, `backward` and `fit`, for programs in the style of a C++ library's binding.

    import torchdeck.compat.object_api as cx

    cx.distributed.init()
    model = cx.SequentialModel()
    model.add(cx.LinearModule(784, 256))

Models are torch modules, and so is everything else that computes.
"""

from torchdeck.compat.object_api import distributed
from torchdeck.compat.object_api.modules import (
    AdamOptimizer,
    CrossEntropyLoss,
    LinearModule,
    ReLUModule,
    SequentialModel,
)

__all__ = [
    "AdamOptimizer",
    "CrossEntropyLoss",
    "LinearModule",
    "ReLUModule",
    "SequentialModel",
    "distributed",
]
