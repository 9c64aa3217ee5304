"""What is said of ranks that do not come."""

from torchdeck.distributed.group.rendezvous import _absent, _unreachable
from torchdeck.environment import DistributedConfig


def test_many_absent_ranks_are_counted() -> None:
    """The first eight by number, the rest as a count; and where, and how long they were waited for."""
    config = DistributedConfig(0, 64, 0, 64, timeout=90.0)
    said = _absent(list(range(10, 40)), config)
    assert said.startswith("ranks 10, 11, 12, 13, 14, 15, 16, 17 and 22 more of 64 did not come")
    assert "127.0.0.1:29500 within 90 s" in said


def test_a_meeting_point_that_cannot_be_reached() -> None:
    """A name that no one knows is told from a machine where no one waits; IPv6 stands in brackets."""
    config = DistributedConfig(1, 2, 1, 2, master_addr="no such name")
    assert "rank 1 knows no machine named no such name (MASTER_ADDR)" in _unreachable(
        config, "", offered=False
    )
    config = DistributedConfig(1, 2, 1, 2, master_addr="::1")
    assert "rank 1 reached no one at [::1]:29500 (MASTER_ADDR" in _unreachable(config, "", offered=False)
