"""From a run file that was just edited to its preview, at once: for who shows it while it is written."""

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
from torchdeck.launching.facts.remembered_digests import RememberedDigests
from torchdeck.launching.facts.remembered_profiles import RememberedProfiles
from torchdeck.launching.gate import resolved
from torchdeck.launching.prepare import ClusterFacts, cluster_facts, plan_from, with_model
from torchdeck.plan.preview import Preview, make_preview
from torchdeck.plan.problems import PlanError
from torchdeck.trust.held import Held

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector

CANCELLED = "tracing the model was cancelled"
UNTRACED = "memory is not known yet: estimating memory"


@dataclass(frozen=True)
class Previewed:
    """What could be said at once."""

    preview: Preview | None
    """None where no plan can be made, as `problems` say."""
    inventory: Inventory
    """The machines that were looked at, or are described; the run may use a part of them."""
    problems: tuple[Problem, ...] = ()
    untraced: str = ""
    """Key of a profile that would tell more and that `Previewer.trace` traces; empty where none would."""
    held: Held | None = None
    """What would have to run to say more, and may not yet."""
    given_up: bool = False
    """Memory is not known as somebody has given it up."""


class Previewer:
    """Makes previews again and again; remembers what takes long to find out. For several threads.

    Args:
        home: TORCHDECK_HOME, where profiles of models and the list of trusted folders are.
        reach: how nodes of the node inventory are reached; None: nobody is asked for a login.
    """

    def __init__(self, home: Path, reach: Connector | None = None) -> None:
        self._home = home
        digest = RememberedDigests()
        self._looks = CachedFactSources(
            digest=digest,
            home=home,
            reach=reach,
        )
        self._profiles = RememberedProfiles(home, digest)

    def preview(self, loaded: LoadedConfig, check: Callable[[], None] = lambda: None) -> Previewed:
        """What `loaded` would do, as far as it is known without tracing a model.

        Args:
            loaded: a run file that is right.
            check: called between parts; what it raises ends it.
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
        """Trace the model, so that `preview` knows it from then on, or why it cannot be.

        Args:
            loaded: a run file that is right.
            on_progress: told what is done, often; what it raises ends the tracing.
        """
        found = cluster_facts(loaded.config, on_progress=on_progress, looks=self._looks, files=loaded.files)
        traced = partial(self._profiles.traced, files=loaded.files)
        with_model(loaded.config, found, self._home, on_progress, traced)

    def give_up(self, key: str) -> None:
        """Do not ask for the profile `key` again: nobody wants to wait for it."""
        self._profiles.give_up(key, CANCELLED)

    def look_again(self) -> None:
        """Forget what was seen and what has failed."""
        self._looks.forget()
        self._profiles.try_again()

    def trust(self, folder: Path) -> None:
        """Let code below `folder` run from now on; raises TrustError."""
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
