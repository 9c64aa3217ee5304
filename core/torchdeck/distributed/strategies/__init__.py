"""How ranks share the work: one interface (`base`), and one file or folder per strategy.

Importing a strategy here registers it.
"""

from torchdeck.distributed.strategies.ddp import DdpStrategy, SingleStrategy
from torchdeck.distributed.strategies.deepspeed.strategy import DeepSpeedStrategy
from torchdeck.distributed.strategies.fsdp import FsdpStrategy, HsdpStrategy

__all__ = ["DdpStrategy", "DeepSpeedStrategy", "FsdpStrategy", "HsdpStrategy", "SingleStrategy"]
