"""Wraps a model in DDP or FSDP2 with one call, for a script that does everything else itself.

The ranks are those of the existing process group, or else of the launcher's variables (torchrun's or
Torchdeck's), and are joined then. The model is wrapped as the strategies wrap it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.distributed.fsdp_units import Blocks, checkpoint_blocks
from torchdeck.distributed.group.processes import setup_distributed
from torchdeck.distributed.rank_settings import DdpOptions
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy

if TYPE_CHECKING:
    from typing_extensions import Unpack

Sharding = Literal["full", "grad-op", "hybrid"]
Precision = Literal["fp32", "bf16", "fp16"]


@arguments()
def wrap_model_ddp(model: nn.Module, **options: Unpack[DdpOptions]) -> nn.Module:
    """Put a replica of `model` on every rank; gradients are averaged in the backward pass.

    Args:
        model: the same on every rank; it is moved to this rank's device.
        options: those of [distributed.ddp] in a run.toml: `bucket_size_mb`, `find_unused_parameters`,
            `static_graph`, `gradient_as_bucket_view`, `broadcast_parameters`, `comm_hook`, `powersgd_rank`.

    Returns:
        torch's DistributedDataParallel, to be called instead of `model`.

    Raises:
        SettingsError: an option is unknown or of the wrong type.
        AgreementError: the ranks' models differ.
        RecipeError: the model has no trainable parameter.
    """
    return _wrapped(model, {"strategy": "ddp", "ddp": options})


@arguments()
def wrap_model_fsdp(
    model: nn.Module,
    *,
    blocks: Blocks | None = None,
    sharding: Sharding = "full",
    shard: int | None = None,
    cpu_offload: bool = False,
    precision: Precision = "fp32",
    reduce_dtype: Precision = "fp32",
    activation_checkpointing: bool = False,
    min_params: int = 1_000_000,
) -> nn.Module:
    """Shard weights, gradients and optimizer state of `model` over the ranks (FSDP2).

    Make the optimizer afterwards: parameters are replaced.

    Args:
        model: the same on every rank.
        blocks: function that returns the model's blocks, each gathered as a unit. Default: modules of at
            least `min_params` parameters.
        sharding: `full` frees gathered weights after the forward pass, `grad-op` keeps them until the
            backward pass, `hybrid` shards inside groups of ranks that replicate each other.
        shard: ranks per group with `hybrid`. Default: those of one node.
        cpu_offload: keep weights and optimizer state in main memory.
        precision: number format of gathered weights and of computation. In fp16 scale the loss yourself.
        reduce_dtype: number format in which gradients are summed over the ranks.
        activation_checkpointing: recompute each block in the backward pass instead of keeping its
            activations.
        min_params: see `blocks`.

    Returns:
        `model` itself.

    Raises:
        RecipeError: there are no blocks, or one is not a module of the model.
        SettingsError: a value is invalid, or the groups of `hybrid` do not divide the ranks.
        AgreementError: the ranks' models differ.
    """
    if shard is not None and sharding != "hybrid":
        raise RecipeError(f'shard is for sharding="hybrid", not "{sharding}"')
    if activation_checkpointing:
        checkpoint_blocks(model, blocks)
    config: dict[str, Any] = {
        "strategy": "hsdp" if sharding == "hybrid" else "fsdp",
        "fsdp": {
            "reshard_after_forward": sharding != "grad-op",
            "cpu_offload": cpu_offload,
            "wrap": "size" if blocks is None else "block",
            "min_params": min_params,
            "reduce_dtype": reduce_dtype,
        },
    }
    if shard is not None:
        config["hsdp"] = {"shard": shard}
    return _wrapped(model, config, blocks, precision)


def _wrapped(
    model: nn.Module, config: dict[str, Any], blocks: Blocks | None = None, precision: str = "fp32"
) -> nn.Module:
    strategy = DistributedStrategy.from_config(config, precision=precision, environment=setup_distributed())
    # the group outlives the strategy, which did not create it
    strategy.setup()
    return strategy.wrap_model(model, blocks)
