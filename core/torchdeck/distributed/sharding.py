"""Shards of batch plans, under the module name that scripts of another library import. It needs no torch."""

from torchdeck.data.batch_plan import compute_shard_stats, interleave_microbatches, shard_batch_plan

__all__ = ["compute_shard_stats", "interleave_microbatches", "shard_batch_plan"]
