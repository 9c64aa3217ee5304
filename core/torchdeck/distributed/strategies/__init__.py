"""How the ranks share the work: one interface (`base`), one file or folder for each strategy.

What is imported here has registered itself.
"""

from torchdeck.distributed.strategies import ddp as _ddp  # noqa: F401
from torchdeck.distributed.strategies import fsdp as _fsdp  # noqa: F401
from torchdeck.distributed.strategies import single as _single  # noqa: F401
from torchdeck.distributed.strategies.deepspeed import strategy as _deepspeed  # noqa: F401
