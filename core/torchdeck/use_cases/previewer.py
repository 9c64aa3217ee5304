"""Previews of a run file that is being edited, without delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.config.chosen_nodes import is_here_alone
from torchdeck.config.loader import LoadedConfig
from torchdeck.config.problems import Problem
from torchdeck.contract.inventory import Inventory
from torchdeck.launching.facts.fact_sources import CachedFactSources
from torchdeck.launching.facts.model_and_data import OnProgress
from torchdeck.launching.facts.remembered_profiles import RememberedProfiles
from torchdeck.launching.gate import resolved
from torchdeck.launching.prepare import ClusterFacts, cluster_facts, plan_from, with_model
from torchdeck.plan.check import PlanError
from torchdeck.plan.preview import Preview, make_preview
from torchdeck.trust.trusted_entry import Held

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector

CANCELLED = "tracing the model was cancelled"
UNTRACED = "memory is not known yet: estimating memory"


@dataclass(frozen=True)
class Previewed:
    """Preview that is available at once."""

    preview: Preview | None
    """None if no plan can be made; `problems` has the reasons."""
    inventory: Inventory
    """Inventory of the probed or described machines; the run may use only some of them."""
    problems: tuple[Problem, ...] = ()
    untraced: str = ""
    """Key of a missing profile that `Previewer.trace` can create; empty if none would help."""
    held: Held | None = None
    """Code that would have to run to show more, and is not trusted yet."""
    given_up: bool = False
    """Whether memory is unknown because the trace was cancelled."""


class Previewer:
    """Source of repeated previews; caches what is slow to determine. Thread-safe.

    Args:
        home: TORCHDECK_HOME, with profiles of models and the trust list.
        connector: connects to nodes of the node inventory; None: without prompting for logins.
    """

    def __init__(self, home: Path, connector: Connector | None = None) -> None:
        self._home = home
        self._looks = CachedFactSources(home=home, connector=connector)
        self._profiles = RememberedProfiles(home)

    def preview(self, loaded: LoadedConfig, check: Callable[[], None] = lambda: None) -> Previewed:
        """Return what `loaded` would do, as far as known without tracing a model.

        Args:
            loaded: a valid run file.
            check: called between steps; an exception from it ends the preview.
        """
        config = resolved(loaded.config) if is_here_alone(loaded.config) else loaded.config
        loaded = replace(loaded, config=config)  # as a launch has it
        found = cluster_facts(config, looks=self._looks, files=loaded.files)
        check()
        known = partial(self._profiles.known, files=loaded.files)
        found = with_model(config, found, self._home, find=known)
        check()
        return self._laid_out(loaded, found, check)

    def trace(self, loaded: LoadedConfig, on_progress: OnProgress) -> None:
        """Trace the model, so that later previews have its profile, or why it cannot be traced.

        Args:
            loaded: a valid run file.
            on_progress: called often with the current work; an exception from it ends the tracing.
        """
        found = cluster_facts(loaded.config, on_progress=on_progress, looks=self._looks, files=loaded.files)
        traced = partial(self._profiles.traced, files=loaded.files)
        with_model(loaded.config, found, self._home, on_progress, traced)

    def give_up(self, key: str) -> None:
        """Cancel the profile `key`: it is not requested again."""
        self._profiles.give_up(key, CANCELLED)

    def look_again(self) -> None:
        """Clear cached facts and failures."""
        self._looks.forget()
        self._profiles.try_again()

    def trust(self, folder: Path) -> None:
        """Trust code below `folder` from now on; raises TrustError."""
        self._looks.gate.trust_folder(folder)

    def _laid_out(self, loaded: LoadedConfig, found: ClusterFacts, check: Callable[[], None]) -> Previewed:
        shown, held = found, next(iter(found.held), None)
        if found.untraced and found.known.profile is None:
            shown = replace(found, known=replace(found.known, remarks=(*found.known.remarks, UNTRACED)))
        try:
            plan = plan_from(loaded.config, shown, loaded.locate)
        except PlanError as error:
            return Previewed(None, found.inventory, error.problems, found.untraced, held)
        check()
        preview = make_preview(loaded.config, plan, found.inventory, shown.known)
        given_up = found.known.failure.endswith(CANCELLED)
        return Previewed(preview, found.inventory, (), found.untraced, held, given_up)
