"""A node that is gone, in words."""

from torchdeck.agent.gang.verdict import not_answering, ranks_on, started_again
from torchdeck.contract.plan.elastic import Elastic


def test_a_gone_node_is_named_with_its_ranks() -> None:
    full = Elastic([("gpu2", 2), ("gpu3", 2), ("gpu4", 1)]).full
    two, one = ranks_on(full, "gpu3"), ranks_on(full, "gpu4")
    assert (
        not_answering("gpu3", 41.2, two) == "node gpu3 has not answered for 41 s; its ranks 2 and 3 are gone"
    )
    assert not_answering("gpu4", 41.2, one) == "node gpu4 has not answered for 41 s; its rank 4 is gone"
    assert not_answering("gpu3", 41.2) == "node gpu3 has not answered for 41 s"
    assert started_again("gpu3", [1, 2, 3]) == (
        "node gpu3 lost power or was rebooted; its ranks 1, 2 and 3 are gone"
    )
