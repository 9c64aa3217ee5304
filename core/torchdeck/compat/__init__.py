"""Names of other libraries' documents, for scripts written against them: replace the package name.

Each package here has the names of one document and calls `torchdeck.distributed` and `torchdeck.data`:

- `batch_plans`: shards of batch plans and positions in them.
- `ddp_fsdp`: functions around DistributedDataParallel and FSDP for a loop of your own.
- `strategies`: strategies from a configuration object, checkpoints, a launcher.
- `augmentation`: augmentation parameters by sample and rank.
- `object_api`: objects with `forward`, `backward` and `fit`, as in a C++ library's Python binding.

docs/compat.md lists every example of these documents, with its test. New code uses the library itself.
"""
