"""Training inside the ranks: strategies, trainer, checkpoints; and everything in `torchdeck.data`.

Names are resolved on first use, so that importing a light part (`torchdeck.contract.checkpoints.manifest`,
or `DistributedRangeSplitter` from here) does not import torch.
"""

from __future__ import annotations

from torchdeck import data
from torchdeck.data.lazy_names import lazy_names, with_names

TYPE_CHECKING = False  # what type checkers take for typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.choose import find_latest_checkpoint
    from torchdeck.contract.checkpoints.manifest import CheckpointError
    from torchdeck.data import *  # noqa: F403 - type checkers follow `__all__ +=` below
    from torchdeck.distributed.augmented_dataset import AugmentedDataset, augment_image
    from torchdeck.distributed.checked import SettingsError
    from torchdeck.distributed.checkpoints.manager import CheckpointManager
    from torchdeck.distributed.checkpoints.resuming import auto_resume
    from torchdeck.distributed.checkpoints.snapshot import LoadedState
    from torchdeck.distributed.fit.trainer import DistributedTrainer
    from torchdeck.distributed.fit.training_history import History
    from torchdeck.distributed.group.agreement import AgreementError, check_agreement
    from torchdeck.distributed.group.process_group import ProcessGroup
    from torchdeck.distributed.group.processes import (
        cleanup_distributed,
        get_local_rank,
        get_rank,
        get_world_size,
        is_initialized,
        is_main_process,
        setup_distributed,
    )
    from torchdeck.distributed.group.rendezvous import RendezvousError
    from torchdeck.distributed.group.roll_call import MissingCallError
    from torchdeck.distributed.rank_settings import DistributedSettings, RecipeSettings
    from torchdeck.distributed.recipe_loading import RecipeError
    from torchdeck.distributed.sampler import DistributedSampler  # noqa: F401 - in data.__all__
    from torchdeck.distributed.strategies import (
        DdpStrategy,
        DeepSpeedStrategy,
        FsdpStrategy,
        HsdpStrategy,
        SingleStrategy,
    )
    from torchdeck.distributed.strategies.base import DistributedStrategy, make_strategy, register_strategy
    from torchdeck.distributed.trainer.callback import Callback
    from torchdeck.distributed.trainer.step import StepResult
    from torchdeck.distributed.trainer.trainer import Trainer
    from torchdeck.distributed.wrapping import wrap_model_ddp, wrap_model_fsdp
    from torchdeck.environment import DistributedConfig, LauncherVariableError

# for type checkers and `import *`; tests/data/test_public_names.py compares it with NAMES and the imports
__all__ = [
    "AgreementError",
    "AugmentedDataset",
    "Callback",
    "CheckpointError",
    "CheckpointManager",
    "DdpStrategy",
    "DeepSpeedStrategy",
    "DistributedConfig",
    "DistributedSettings",
    "DistributedStrategy",
    "DistributedTrainer",
    "FsdpStrategy",
    "History",
    "HsdpStrategy",
    "LauncherVariableError",
    "LoadedState",
    "MissingCallError",
    "ProcessGroup",
    "RecipeError",
    "RecipeSettings",
    "RendezvousError",
    "SettingsError",
    "SingleStrategy",
    "StepResult",
    "Trainer",
    "augment_image",
    "auto_resume",
    "check_agreement",
    "cleanup_distributed",
    "find_latest_checkpoint",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "is_initialized",
    "is_main_process",
    "make_strategy",
    "register_strategy",
    "setup_distributed",
    "wrap_model_ddp",
    "wrap_model_fsdp",
]
__all__ += data.__all__

_AGREEMENT = "torchdeck.distributed.group.agreement"
_AUGMENTED = "torchdeck.distributed.augmented_dataset"
_PROCESSES = "torchdeck.distributed.group.processes"
_SETTINGS = "torchdeck.distributed.rank_settings"
_STRATEGIES = "torchdeck.distributed.strategies"
_STRATEGY = "torchdeck.distributed.strategies.base"
_WRAPPING = "torchdeck.distributed.wrapping"

NAMES = {
    **data.NAMES,
    "AgreementError": (_AGREEMENT, "ranks differ in a value that must be the same"),
    "AugmentedDataset": (_AUGMENTED, "data set that augments every sample"),
    "Callback": ("torchdeck.distributed.trainer.callback", "base class of callbacks"),
    "CheckpointError": (
        "torchdeck.contract.checkpoints.manifest",
        "a checkpoint cannot be read or written",
    ),
    "CheckpointManager": ("torchdeck.distributed.checkpoints.manager", "checkpoints in one directory"),
    "DdpStrategy": (_STRATEGIES, "all weights on every rank, averaged gradients"),
    "DeepSpeedStrategy": (_STRATEGIES, "DeepSpeed's ZeRO"),
    "DistributedConfig": ("torchdeck.environment", "place of a process among the ranks, and where they meet"),
    "DistributedSettings": (_SETTINGS, "a strategy and its options"),
    "DistributedSampler": ("torchdeck.distributed.sampler", "samples of one rank, a sampler of torch"),
    "DistributedStrategy": (_STRATEGY, "base class of the ways to train a model on several ranks"),
    "DistributedTrainer": ("torchdeck.distributed.fit.trainer", "trains a model on all ranks"),
    "FsdpStrategy": (_STRATEGIES, "weights, gradients and optimizer state sharded over the ranks"),
    "History": ("torchdeck.distributed.fit.training_history", "losses and metrics of a training"),
    "HsdpStrategy": (_STRATEGIES, "sharded within groups of ranks, replicated between them"),
    "LauncherVariableError": ("torchdeck.environment", "a variable of the launcher is missing or invalid"),
    "LoadedState": ("torchdeck.distributed.checkpoints.snapshot", "contents of a loaded checkpoint"),
    "MissingCallError": ("torchdeck.distributed.group.roll_call", "a rank did not make a collective call"),
    "ProcessGroup": ("torchdeck.distributed.group.process_group", "the ranks as a group"),
    "RecipeError": (
        "torchdeck.distributed.recipe_loading",
        "model, data or settings cannot be trained",
    ),
    "RecipeSettings": (_SETTINGS, "settings of a recipe's run"),
    "RendezvousError": ("torchdeck.distributed.group.rendezvous", "not all ranks arrived in time"),
    "SettingsError": ("torchdeck.distributed.checked", "settings are invalid"),
    "SingleStrategy": (_STRATEGIES, "training in one process"),
    "StepResult": ("torchdeck.distributed.trainer.step", "results of one optimizer step, for callbacks"),
    "Trainer": ("torchdeck.distributed.trainer.trainer", "one training of one recipe, on one of its ranks"),
    "augment_image": (_AUGMENTED, "rotate and scale an image, change contrast, brightness and noise"),
    "auto_resume": (
        "torchdeck.distributed.checkpoints.resuming",
        "load the newest intact checkpoint",
    ),
    "check_agreement": (_AGREEMENT, "check that every rank has the same values"),
    "cleanup_distributed": (_PROCESSES, "leave the process group"),
    "find_latest_checkpoint": (
        "torchdeck.contract.checkpoints.choose",
        "find the newest intact checkpoint",
    ),
    "get_local_rank": (_PROCESSES, "get the rank on this node"),
    "get_rank": (_PROCESSES, "get the rank"),
    "get_world_size": (_PROCESSES, "get the number of ranks"),
    "is_initialized": (_PROCESSES, "check whether the process group was joined"),
    "is_main_process": (_PROCESSES, "check whether this is rank 0"),
    "make_strategy": (_STRATEGY, "make a strategy of settings"),
    "register_strategy": (_STRATEGY, "register a strategy of your own"),
    "setup_distributed": (_PROCESSES, "join the process group"),
    "wrap_model_ddp": (_WRAPPING, "replicate a model on every rank"),
    "wrap_model_fsdp": (_WRAPPING, "shard a model over the ranks"),
}
"""Public name → the module that defines it, and one line for the list in `help`."""

HOMES = {name: home for name, (home, _) in NAMES.items()}
"""Public name → the module that defines it."""

__doc__ = with_names(__doc__, NAMES)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
