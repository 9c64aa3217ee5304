"""How ranks share the work: one interface (`base`), and one file or folder per strategy.

Importing a strategy here registers it.
"""

from torchdeck.distributed.strategies import ddp as _ddp  # noqa: F401
from torchdeck.distributed.strategies import fsdp as _fsdp  # noqa: F401
from torchdeck.distributed.strategies.deepspeed import strategy as _deepspeed  # noqa: F401
