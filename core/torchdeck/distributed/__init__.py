"""Training inside the ranks: strategies, trainer, checkpoints; and everything in `torchdeck.data`.

Names are resolved on first use, so that importing a light part (`torchdeck.contract.checkpoints.manifest`,
or `DistributedRangeSplitter` from here) does not import torch.
"""

from __future__ import annotations

from torchdeck.data import HOMES as _DATA
from torchdeck.data.lazy_names import lazy_names

HOMES = {
    **_DATA,
    "AgreementError": "torchdeck.distributed.group.agreement",
    "CheckpointManager": "torchdeck.distributed.checkpoints.manager",
    "Callback": "torchdeck.distributed.trainer.callback",
    "AugmentedDataset": "torchdeck.distributed.augmented_dataset",
    "DistributedTrainer": "torchdeck.distributed.fit.trainer",
    "History": "torchdeck.distributed.fit.training_history",
    "RecipeError": "torchdeck.distributed.recipe_loading",
    "RecipeSettings": "torchdeck.distributed.rank_settings",
    "SettingsError": "torchdeck.distributed.checked",
    "ProcessGroup": "torchdeck.distributed.group.process_group",
    "DistributedStrategy": "torchdeck.distributed.strategies.base",
    "Trainer": "torchdeck.distributed.trainer.trainer",
    "DistributedConfig": "torchdeck.environment",
    "RendezvousError": "torchdeck.distributed.group.rendezvous",
    "cleanup_distributed": "torchdeck.distributed.group.processes",
    "get_local_rank": "torchdeck.distributed.group.processes",
    "get_rank": "torchdeck.distributed.group.processes",
    "get_world_size": "torchdeck.distributed.group.processes",
    "is_initialized": "torchdeck.distributed.group.processes",
    "is_main_process": "torchdeck.distributed.group.processes",
    "setup_distributed": "torchdeck.distributed.group.processes",
    "wrap_model_ddp": "torchdeck.distributed.wrapping",
    "wrap_model_fsdp": "torchdeck.distributed.wrapping",
    "auto_resume": "torchdeck.distributed.checkpoints.resuming",
    "find_latest_checkpoint": "torchdeck.contract.checkpoints.choose",
    "augment_image": "torchdeck.distributed.augmented_dataset",
    "check_agreement": "torchdeck.distributed.group.agreement",
    "make_strategy": "torchdeck.distributed.strategies.base",
    "register_strategy": "torchdeck.distributed.strategies.base",
}
"""Public name → the module that defines it."""

__getattr__, __dir__ = lazy_names(__name__, HOMES)
