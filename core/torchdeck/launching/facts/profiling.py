"""A recipe's model profile: cached, or traced in a separate process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.plan.model_profile import ModelProfile, ProfileFormatError
from torchdeck.data.planned_steps import needs_layout
from torchdeck.launching.facts.interpreter_check import check_interpreter
from torchdeck.launching.facts.profile_cache import ProfileCache, profile_key
from torchdeck.launching.facts.tracing_process import TracingFailedError, trace_in_process
from torchdeck.launching.gate import Gate, NotTrustedError
from torchdeck.launching.runtime_bundle import BundleError
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.plan.fitting import heavy_microbatches
from torchdeck.tracing.request import REQUEST_VERSION, PlannedBatch, WantedTrace

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan, Microbatch

TRACING_LIMIT = 120.0
"""Time limit of tracing in seconds, including reading the data."""


class ProfilingError(Exception):
    """There is no profile of the model; the message gives the reason and a remedy.

    `certain`: the recipe's own code raised, and would in every rank.
    """

    def __init__(self, message: str, *, certain: bool = False) -> None:
        super().__init__(message)
        self.certain = certain


@dataclass(frozen=True)
class AskedProfile:
    """A requested profile, before it is looked up or traced."""

    request: Mapping[str, Any]
    key: str
    """Its key in a `ProfileCache`."""
    executable: str
    """The Python that would trace it."""
    config: RunConfig
    """Admitted configuration: its paths are those that were checked, without symbolic links."""


def wanted_traces(config: RunConfig, plan: BatchPlan | None = None) -> tuple[WantedTrace, ...]:
    """Return the traces needed to predict any strategy for `config`.

    They cover the configured microbatch and another size, to show what grows with the microbatch. They
    include weights that autocast copies and, if FSDP would gather them in another dtype, such weights. Each
    is traced with and without activation checkpointing. With a batch plan, only its heaviest microbatch is
    traced.
    """
    training, fsdp = config.training, config.distributed.fsdp
    gathered = training.precision if fsdp.param_dtype == "auto" else fsdp.param_dtype
    heavy = () if plan is None else tuple(map(_planned, heavy_microbatches(plan)))
    size = training.microbatch
    sizes = (len(heavy[0].samples),) if heavy else (size, size // 2 or 2)
    casts = (False,) if gathered == "fp32" else (False, True)
    return tuple(
        WantedTrace(count, cast, again, heavy) for count in sizes for cast in casts for again in (False, True)
    )


def _planned(microbatch: Microbatch) -> PlannedBatch:
    rows = None if microbatch.row_sizes is None else tuple(microbatch.row_sizes.tolist())
    return PlannedBatch(tuple(microbatch.sample_ids.tolist()), microbatch.max_len, rows)


def profile_model(
    config: RunConfig,
    home: Path,
    *,
    plan: BatchPlan | None = None,
    wanted: Sequence[WantedTrace] | None = None,
    interpreter: InterpreterFacts | None = None,
    on_progress: Callable[[str], None] | None = None,
    timeout: float = TRACING_LIMIT,
    files: Sequence[Path] = (),
) -> ModelProfile:
    """Return the needs of the recipe of `config`, from a trace or an earlier trace of the same content.

    Args:
        config: config of a recipe run.
        home: TORCHDECK_HOME; profiles are cached in it.
        plan: the run's batch plan.
        wanted: traces to make. Default: `wanted_traces(config, plan)`.
        interpreter: facts of run.interpreter, if they are already known.
        on_progress: called with the current work in a few words, repeatedly; an exception from it ends the
            tracing.
        timeout: seconds until tracing is aborted.
        files: files of `config`, `LoadedConfig.files`; empty if the user's own code made it.

    Raises:
        ProfilingError: the run has no recipe, code that would run is not trusted, the interpreter lacks
            something required, or the model cannot be traced.
    """
    asked = asked_profile(config, home, plan=plan, wanted=wanted, interpreter=interpreter, files=files)
    cache = ProfileCache(home)
    known = cache.read(asked.key)
    return trace_profile(home, asked, cache, on_progress, timeout) if known is None else known


def asked_profile(
    config: RunConfig,
    home: Path,
    *,
    plan: BatchPlan | None = None,
    wanted: Sequence[WantedTrace] | None = None,
    interpreter: InterpreterFacts | None = None,
    files: Sequence[Path] = (),
) -> AskedProfile:
    """Return the profile request that `profile_model` would look up with these arguments, and trace if
    missing.

    Raises:
        ProfilingError: the run has no recipe, code that would run is not trusted, or the interpreter lacks
            something required.
    """
    recipe = config.run.recipe
    if recipe is None:
        raise ProfilingError(
            "only a recipe's model can be traced; the model of a script or module is unknown before it runs"
        )
    config, recipe = _admitted(config, recipe, home, files)
    facts = probe_interpreter(config.run.interpreter) if interpreter is None else interpreter
    _check_interpreter(facts)
    request = _request(config, recipe, plan, wanted_traces(config, plan) if wanted is None else wanted)
    return AskedProfile(request, profile_key(config, request, facts), _executable(config, facts), config)


def trace_profile(
    home: Path,
    asked: AskedProfile,
    cache: ProfileCache,
    on_progress: Callable[[str], None] | None = None,
    timeout: float = TRACING_LIMIT,
) -> ModelProfile:
    """Trace what `asked_profile` has requested, and store it in `cache`; arguments as for `profile_model`.

    Raises:
        ProfilingError: the model cannot be traced.
    """
    try:
        answer = trace_in_process(asked.config, home, asked.executable, asked.request, on_progress, timeout)
        profile = ModelProfile.from_json(answer)
        cache.write(asked.key, answer)
    except TracingFailedError as error:
        raise ProfilingError(str(error), certain=error.certain) from error
    except (BundleError, ProfileFormatError) as error:
        raise ProfilingError(str(error)) from error
    return profile


def _request(
    config: RunConfig, recipe: str, plan: BatchPlan | None, wanted: Sequence[WantedTrace]
) -> dict[str, Any]:
    fsdp = config.distributed.fsdp
    return {
        "version": REQUEST_VERSION,
        "recipe": recipe,
        "model": config.model,
        "data": config.data,
        "precision": config.training.precision,
        "fsdp": fsdp.model_dump(mode="json", include={"wrap", "min_params", "param_dtype"}),
        "seed": config.training.seed,
        "heldout": config.training.eval_every is not None,
        "needs_layout": "" if plan is None else needs_layout(plan),
        "traces": [asdict(trace) for trace in wanted],
    }


def _admitted(config: RunConfig, recipe: str, home: Path, files: Sequence[Path]) -> tuple[RunConfig, str]:
    """Return the configuration that may run, and its recipe. Raises ProfilingError."""
    if recipe not in BUILTIN_RECIPES and not Path(recipe).is_file():
        raise ProfilingError(f"recipe file {recipe} does not exist: correct run.recipe")
    try:
        admitted = Gate(home).admitted(config, files)
    except NotTrustedError as error:
        raise ProfilingError(str(error.held[0])) from error
    return admitted, admitted.run.recipe or recipe


def _executable(config: RunConfig, facts: InterpreterFacts) -> str:
    """Return the Python to start; one named by its path is the very one that was checked."""
    named = config.run.interpreter
    return named if named is not None and os.sep in named else facts.executable


def _check_interpreter(facts: InterpreterFacts) -> None:
    for check in check_interpreter(facts, "localhost", recipe=True):
        if check.status == "failed":
            raise ProfilingError(f"the model cannot be traced, as {check}")
