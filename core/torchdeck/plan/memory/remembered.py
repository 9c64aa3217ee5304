"""What was worked out of a model's profile, for who asks again at every edit of a run file."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from torchdeck.contract.plan.model_profile import ModelProfile

T = TypeVar("T")
KEPT = 64
"""Answers a profile; some ways to train that are compared at every edit are a dozen."""


def remembered(profile: ModelProfile, key: Hashable, work: Callable[[], T]) -> T:
    """What `work()` returned when it was first called for `key`: an answer that nobody changes.

    Args:
        profile: of which it is worked out; of another nothing is taken.
        key: all that the answer depends on besides.
        work: pure; what it raises is passed on, and not remembered.
    """
    known = profile.worked_out
    found = known.get(key)  # one step: other threads ask, too
    if found is None:
        found = (work(),)
        if len(known) >= KEPT:
            known.clear()
        known[key] = found
    return cast("T", found[0])
