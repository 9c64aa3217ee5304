"""Profiles of models: a process of its own, a cache by content, and one sentence for what goes wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.training.profiled_recipe import FEW, RUN, trusted, write_recipe
from support.values.run_files import load, write
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.launching.facts import profiling
from torchdeck.launching.facts.profiling import ProfilingError, profile_model, wanted_traces
from torchdeck.plan.fitting import heaviest_microbatch, heavy_microbatches
from torchdeck.tracing.request import PlannedBatch, WantedTrace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the recipe is; Torchdeck's home lies elsewhere."""
    write_recipe(tmp_path / "code")
    return tmp_path / "code"


@pytest.fixture
def config(home: Path, folder: Path) -> RunConfig:
    """A run of a recipe file in a trusted folder."""
    return trusted(folder, home)


@pytest.mark.processes
def test_a_model_is_traced_once(config: RunConfig, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the recipe writes to standard output is no answer; later calls start nothing."""
    told: list[str] = []
    profile = profile_model(config, home, wanted=FEW, on_progress=told.append)
    assert [(info.name, info.shape) for info in profile.parameters] == [("weight", (3, 4)), ("bias", (3,))]
    assert profile.train_samples == 6
    # "starting" comes before where Python itself takes longer than a look
    assert next(words for words in dict.fromkeys(told) if words != "starting") == "starting torch"
    assert told[-1].endswith("2 samples, trace 1 of 1")

    def never(*_: Any) -> Any:
        raise AssertionError("a process was started")

    monkeypatch.setattr(profiling, "trace_in_process", never)
    again = profile_model(config, home, wanted=FEW)
    assert again.to_json() == profile.to_json()
    with pytest.raises(AssertionError, match="a process was started"):
        profile_model(config, home, wanted=(WantedTrace(3),))


def test_code_is_run_only_from_a_trusted_folder(home: Path, folder: Path) -> None:
    """As before a launch: the sentence says how to trust it."""
    with pytest.raises(ProfilingError, match=r"is code, and its folder .* is not trusted yet: .* --trust"):
        profile_model(load(folder, RUN), home)
    (folder / "model.py").unlink()
    with pytest.raises(ProfilingError, match=r"recipe file .* does not exist"):
        profile_model(load(folder, RUN), home)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("used", "said"),
    [
        (InterpreterFacts("/x/python", "3.11.0", None, "2.0"), "there is no torch in /x/python"),
        (InterpreterFacts("/x/python", "3.11.0", "2.13.0", None), "there is no numpy in /x/python"),
        (
            InterpreterFacts("/x/python", error="there is no such file"),
            "cannot be used: there is no such file",
        ),
        (InterpreterFacts("/x/python", "3.11.0", "2.13.0", "2.0"), "/x/python could not be started"),
    ],
)
def test_an_interpreter_that_lacks_what_it_takes(
    used: InterpreterFacts, said: str, config: RunConfig, home: Path
) -> None:
    """Without torch or numpy, or not there at all."""
    with pytest.raises(ProfilingError, match=said):
        profile_model(config, home, interpreter=used)


def test_a_script_has_no_profile(home: Path, folder: Path) -> None:
    """Only a recipe's model is known to be one."""
    write(folder, "", "train.py")
    with pytest.raises(ProfilingError, match="only a recipe's model can be traced"):
        profile_model(load(folder, '[run]\nscript = "train.py"\n'), home)


def test_wanted_traces_cover_what_predicting_needs(folder: Path) -> None:
    """Two sizes, with and without checkpointing; with weights cast where FSDP would."""
    text = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\nmicrobatch = {}\nprecision = "{}"\n'
    plain = wanted_traces(load(folder, text.format(6, "fp32")))
    assert plain == tuple(
        WantedTrace(size, cast=False, checkpointing=c) for size in (6, 3) for c in (False, True)
    )
    one = wanted_traces(load(folder, text.format(1, "bf16")))
    assert {trace.microbatch for trace in one} == {1, 2}
    assert len(one) == len(set(one)) == 8
    kept = wanted_traces(
        load(
            folder,
            text.format(1, "bf16"),
            'distributed.strategy="fsdp"',
            'distributed.fsdp.param_dtype="fp32"',
        )
    )
    assert {trace.cast for trace in kept} == {False}


def test_with_a_batch_plan_its_heaviest_microbatch_is_traced(tmp_path: Path) -> None:
    """Just its samples in its rows, and with the others that might be it; no other size."""
    config = load(tmp_path, '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\n')
    plan = build_batch_plan(np.array([3, 9, 9, 9, 2, 1]), token_budget=27, max_length=9)
    whole, again = wanted_traces(config, plan)
    heaviest = heaviest_microbatch(plan)
    assert heaviest is not None
    assert whole == WantedTrace(3, batches=(PlannedBatch(tuple(heaviest.sample_ids.tolist()), 9),))
    assert again == replace(whole, checkpointing=True)
    packed = build_batch_plan(np.array([4, 4, 8]), token_budget=16, max_length=8, pack=True)
    (batch,) = wanted_traces(config, packed)[0].batches
    assert sorted(batch.row_sizes or ()) == [1, 2]
    lengths = np.random.default_rng(1).integers(1, 100, size=500)
    heavy = heavy_microbatches(build_batch_plan(lengths, token_budget=256, seed=1))
    mixed = wanted_traces(config, build_batch_plan(lengths, token_budget=256, seed=1))[0].batches
    assert [batch.max_len for batch in mixed] == [microbatch.max_len for microbatch in heavy]
