"""Progress of a script as its agent noted it, and which layer reports what."""

from __future__ import annotations

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import ScriptState, read_script_state
from torchdeck.trainers.roles import Roles

_SHOWN = ("step", "total", "loss")


def script_state(layout: RunLayout, world_size: int) -> ScriptState | None:
    """Return the state of the newest attempt's rank that reports: the first, or else the last.

    Args:
        layout: of the run.
        world_size: number of ranks.
    """
    for number in reversed(layout.attempt_numbers()):
        attempt = layout.attempt(number)
        states = [
            read_script_state(attempt.rank(rank).script) for rank in sorted({0, max(0, world_size - 1)})
        ]
        found = [state for state in states if state is not None]
        if found:
            return next((state for state in found if state.step is not None), found[0])
    return None


def roles_of_run(layout: RunLayout) -> Roles:
    """Return the roles of a run's metrics: those that its run file names, then those of known programs."""
    plan = read_json(layout.plan)
    names = plan.get("metric_names") if isinstance(plan, dict) else None
    given = names if isinstance(names, dict) else {}
    return Roles({role: name for role, name in given.items() if isinstance(name, str)})


def origins_sentence(state: ScriptState) -> str:
    """Return `step and loss from trainer_state.json, total from --max_steps`; empty if nothing is known."""
    names: dict[str, list[str]] = {}
    for fact in _SHOWN:
        if fact in state.origins:
            names.setdefault(state.origins[fact].name, []).append(fact)
    return ", ".join(f"{_listed(facts)} from {origin}" for origin, facts in names.items())


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
