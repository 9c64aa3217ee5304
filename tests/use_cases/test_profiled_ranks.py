"""Lists of ranks to profile."""

from __future__ import annotations

import pytest

from torchdeck.contract.doctor.rank_profile import MOST_RANKS
from torchdeck.use_cases.ranks.profile import ranks_in


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("", ()),
        (" ", ()),
        ("3", (3,)),
        ("0,3-5", (0, 3, 4, 5)),
        (" 1 , 2-2", (1, 2)),
        ("0-63", tuple(range(64))),
    ],
)
def test_a_list(text: str, ranks: tuple[int, ...]) -> None:
    assert ranks_in(text) == ranks


@pytest.mark.parametrize("text", ["x", "1,", "-1", "1-", "5-3", "0-64", f"0-{10**18}", "0-62,7,8", "1.5"])
def test_what_is_no_list(text: str) -> None:
    """Or names more ranks than a profile may have; a range of any length costs nothing."""
    assert MOST_RANKS == 64
    with pytest.raises(ValueError, match=r"invalid literal|after its end|more than 64"):
        ranks_in(text)
