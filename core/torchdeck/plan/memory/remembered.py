"""Cache of results computed from a model's profile, for callers that repeat a request at every edit of a run
file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from torchdeck.contract.plan.model_profile import ModelProfile

T = TypeVar("T")
KEPT = 64
"""Cached results per profile; an edit may compare about a dozen training settings."""


def remembered(profile: ModelProfile, key: Hashable, work: Callable[[], T]) -> T:
    """Return the result of the first call of `work()` for `key`. The result must not be modified.

    Args:
        profile: profile the result is computed from; results of other profiles are not used.
        key: everything else that the result depends on.
        work: pure function; its exceptions propagate and are not cached.
    """
    known = profile.worked_out
    found = known.get(key)  # a single operation: other threads use the cache too
    if found is None:
        found = (work(),)
        if len(known) >= KEPT:
            known.clear()
        known[key] = found
    return cast("T", found[0])
