"""Divide a data set among ranks and derive reproducible seeds, without torch and without communication.

python ranges_and_seeds.py                                    one process
RANK=0 WORLD_SIZE=2 python ranges_and_seeds.py                two, each in a shell of its own
torchrun --nproc-per-node 3 ranges_and_seeds.py               three, by torchrun
torchdeck --no-gui --script ranges_and_seeds.py --nproc 3     three, in a recorded run
"""

import torchdeck
from torchdeck.data import DistributedRangeSplitter, RankAwareSeedGenerator
from torchdeck.distributed import DistributedConfig

SAMPLES = 1_000_003


def main() -> None:
    me = DistributedConfig.from_env()

    # consecutive samples, the remainder spread over the first ranks: none twice, none left out
    mine = DistributedRangeSplitter(SAMPLES, me.world_size).get_rank_range(me.rank)
    print(f"rank {me.rank} of {me.world_size}: samples {mine.start} to {mine.stop - 1}, {mine.size} of them")

    # a sample's bits depend only on base seed, epoch, rank and sample, on any machine
    seeds = RankAwareSeedGenerator(base_seed=7, world_size=me.world_size)
    print(f"rank {me.rank}: sample {mine.start} draws from {seeds.generate_seed(mine.start, me.rank)[:16]}…")

    torchdeck.log({"samples": mine.size}, step=1)  # no effect outside of a Torchdeck run


if __name__ == "__main__":
    main()
