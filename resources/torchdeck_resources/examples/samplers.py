"""Samples of each rank, epoch after epoch; a position can be resumed with any number of ranks.

python samplers.py                                    one process
torchrun --nproc-per-node 2 samplers.py               two, by torchrun
torchdeck --no-gui --script samplers.py --nproc 2     two, in a recorded run
"""

from torchdeck.data import DistributedBatchIterator, DistributedSampler
from torchdeck.distributed import DistributedConfig

SAMPLES, BATCH = 22, 4


def main() -> None:
    me = DistributedConfig.from_env()

    # the same indices as torch.utils.data.DistributedSampler, padded so that all ranks have as many
    padded = DistributedSampler(SAMPLES, me.world_size, me.rank, seed=1)
    print(f"rank {me.rank}: like torch {padded.get_indices().tolist()}")

    # every sample exactly once: some ranks have one less, which shows in the length of their batches
    sampler = DistributedSampler(SAMPLES, me.world_size, me.rank, seed=1, exactly_once=True)
    batches = DistributedBatchIterator(sampler, BATCH)
    print(f"rank {me.rank}: exactly once {batches.next().tolist()}")
    state = batches.state_dict()
    for batch in batches:
        print(f"rank {me.rank}: exactly once {batch.tolist()}")

    # training was stopped after its first batch; the remaining samples are now divided among five ranks
    again = DistributedSampler(SAMPLES, 5, 0, seed=1, exactly_once=True)
    resumed = DistributedBatchIterator(again, BATCH)
    resumed.load_state_dict(state)
    print(f"rank {me.rank}: the first of five would continue with {resumed.next().tolist()}")


if __name__ == "__main__":
    main()
