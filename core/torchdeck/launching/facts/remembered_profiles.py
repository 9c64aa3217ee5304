"""Profiles of models for callers that request them repeatedly and cannot wait."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.launching.facts.model_and_data import OnProgress, UntracedError
from torchdeck.launching.facts.profile_cache import ProfileCache
from torchdeck.launching.facts.profiling import AskedProfile, ProfilingError, asked_profile, trace_profile

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan


KEPT = 16
"""Profiles held in memory, besides those on disk."""


class RememberedProfiles:
    """Caches profiles and failures by what they depend on: edited code is tried again.

    Thread-safe.

    `known` and `traced` replace `launch.profiling.profile_model`.

    Args:
        home: TORCHDECK_HOME; profiles are cached in it.
    """

    def __init__(self, home: Path) -> None:
        self._cache = ProfileCache(home)
        self._profiles: OrderedDict[str, ModelProfile] = OrderedDict()
        self._failures: dict[str, ProfilingError] = {}
        self._lock = threading.Lock()

    def known(
        self,
        config: RunConfig,
        home: Path,
        *,
        plan: BatchPlan | None,
        interpreter: InterpreterFacts | None,
        on_progress: OnProgress | None = None,  # noqa: ARG002 - as the other has it; nothing is waited for here
        files: Sequence[Path] = (),
    ) -> ModelProfile:
        """Return the profile if it is known, in memory or on disk.

        Raises:
            ProfilingError: there cannot be one, or an earlier attempt failed.
            UntracedError: it would have to be traced.
        """
        asked = asked_profile(config, home, plan=plan, interpreter=interpreter, files=files)
        profile = self._find(asked)
        if profile is None:
            raise UntracedError(asked.key)
        return profile

    def traced(
        self,
        config: RunConfig,
        home: Path,
        *,
        plan: BatchPlan | None,
        interpreter: InterpreterFacts | None,
        on_progress: OnProgress | None = None,
        files: Sequence[Path] = (),
    ) -> ModelProfile:
        """Return the profile, tracing it if unknown; raises ProfilingError."""
        asked = asked_profile(config, home, plan=plan, interpreter=interpreter, files=files)
        profile = self._find(asked)
        if profile is not None:
            return profile
        try:
            profile = trace_profile(home, asked, self._cache, on_progress)
        except ProfilingError as error:
            with self._lock:
                self._failures[asked.key] = error
            raise
        self._keep(asked.key, profile)
        return profile

    def give_up(self, key: str, why: str) -> None:
        """Report the profile `key` as unavailable, with the reason `why`, on later requests."""
        with self._lock:
            self._failures[key] = ProfilingError(why)

    def try_again(self) -> None:
        """Clear the recorded failures."""
        with self._lock:
            self._failures.clear()

    def _find(self, asked: AskedProfile) -> ModelProfile | None:
        with self._lock:
            profile = self._profiles.get(asked.key)
            if profile is not None:
                self._profiles.move_to_end(asked.key)
                return profile
            if asked.key in self._failures:
                raise self._failures[asked.key].with_traceback(None)
        profile = self._cache.read(asked.key)
        if profile is not None:
            self._keep(asked.key, profile)
        return profile

    def _keep(self, key: str, profile: ModelProfile) -> None:
        with self._lock:
            self._profiles[key] = profile
            while len(self._profiles) > KEPT:
                self._profiles.popitem(last=False)
