"""One real rank that asks for agreement: `python agreement_ranks.py VALUES`, a JSON list, an item a rank.

It prints what was raised, or "agreed", and then that the group still works.
"""

import json
import sys

from torchdeck.distributed import ProcessGroup, check_agreement
from torchdeck.distributed.group.agreement import AgreementError
from torchdeck.distributed.process_end import leave
from torchdeck.environment import Place


def main() -> int:
    place = Place.from_env()
    group = ProcessGroup(place, backend="gloo", timeout=60.0)
    try:
        check_agreement(group, json.loads(sys.argv[1])[place.rank])
        print("agreed")
    except AgreementError as error:
        print(error)
    assert group.sum([1.0]) == [float(place.world_size)]
    group.close()
    return 0


if __name__ == "__main__":
    leave(main())
