"""Profiles from [estimate]: beside what tracing finds of the same models, and from files that are none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.training import llama_recipe
from torchdeck.config.estimate import Estimate
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.config.training import Training
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.launching.facts.estimated_profile import estimate_profile, estimated_config
from torchdeck.launching.facts.profiling import profile_model
from torchdeck.plan.memory.closed_form_profile import SOURCE, closed_form_profile
from torchdeck.plan.memory.model_shape import ModelShape
from torchdeck.plan.memory.shape_derivation import EstimateError
from torchdeck.trust.trust_list import TrustList

SHARE = {"byte-gpt": 0.005, "llama": 0.025}
"""How far the peak of a trace may be off; measured: at most 0.0047 and 0.020, over 48 and 36 traces."""


def script(folder: Path, **estimate: Any) -> RunConfig:
    """A script's config with an [estimate]."""
    return config_from_dict({"run": {"script": "train.py"}, "estimate": estimate}, folder)


def check_against(traced: ModelProfile, shape: ModelShape, share: float) -> None:
    """The same parameters, the same gradients, and peaks of all traces within `share`."""
    wanted = [(trace.microbatch, trace.cast, trace.checkpointing) for trace in traced.traces]
    computed = closed_form_profile(shape, precision=traced.precision, wanted=wanted)
    assert sum(t.numel for t in computed.parameters) == sum(t.numel for t in traced.parameters)
    assert len(computed.units) == len(traced.units)
    for real, estimate in zip(traced.traces, computed.traces, strict=True):
        assert estimate.values.sum() == real.values.sum()
        peak = int(np.cumsum(real.values).max())
        assert int(np.cumsum(estimate.values).max()) == pytest.approx(peak, rel=share)


@pytest.mark.processes
@pytest.mark.soak  # a normal run has the model below, which keeps more kinds of tensors
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_byte_gpt_needs_what_was_estimated(precision: str, tmp_path: Path) -> None:
    """Weights copied by autocast and weights cast, with and without checkpointing, two microbatches."""
    table = {
        "run": {"recipe": "byte-gpt"},
        "model": {"layers": 6, "width": 256, "heads": 8, "context": 128},
        "data": {"max_bytes": 100_000},
        "training": {"steps": 1, "microbatch": 8, "precision": precision},
    }
    shape = ModelShape(
        6, 256, 8, 8, 32, 1024, 256, 128,
        gated=False, layer_norm=True, positions=True, tied=False, mlp_bias=True, max_positions=128,
    )  # fmt: skip
    traced = profile_model(config_from_dict(table, tmp_path), tmp_path / "home")
    check_against(traced, shape, SHARE["byte-gpt"])


@pytest.mark.processes
def test_a_model_like_llama_needs_what_was_estimated(tmp_path: Path) -> None:
    """Grouped heads, a gated MLP, norms that keep more than their input."""
    home, recipe = tmp_path / "home", Path(llama_recipe.__file__)
    home.mkdir()
    for folder in (recipe.parent, tmp_path):  # where it lies, and where it starts
        TrustList(home).add(folder)
    table = {
        "run": {"recipe": str(recipe)},
        "model": {"layers": 4, "width": 256, "heads": 8, "kv_heads": 2, "mlp_width": 768, "vocabulary": 1000},
        "data": {"context": 128},
        "training": {"steps": 1, "microbatch": 4, "precision": "bf16"},
    }
    shape = ModelShape(
        4, 256, 8, 2, 32, 768, 1000, 128, gated=True, layer_norm=False, positions=False, tied=False
    )  # fmt: skip
    check_against(profile_model(config_from_dict(table, tmp_path), home), shape, SHARE["llama"])


def test_a_script_says_in_the_estimate_how_it_trains(tmp_path: Path) -> None:
    """The profile is labelled; the config that is planned with has the script's microbatch and precision."""
    config = script(
        tmp_path, parameters=1e8, precision="bf16", microbatch=3, checkpointing=True, optimizer="sgd"
    )
    training = estimated_config(config).training
    assert (training.microbatch, training.precision, training.optimizer) == (3, "bf16", "sgd")
    assert training.activation_checkpointing
    profile = estimate_profile(config)
    assert (profile.source, profile.precision) == (SOURCE, "bf16")
    assert sum(tensor.numel for tensor in profile.parameters) == 100_000_000
    assert {trace.microbatch for trace in profile.traces} == {3, 1}
    assert "Korthikanti" in profile.notes[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b" " * (2**20 + 1), "is too large: more than 1 MiB"),
        (b'{"model_type": "bert"}', "model_type 'bert' is not known"),
    ],
)
def test_a_file_that_is_no_config_is_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    """One sentence that names the key."""
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EstimateError, match=rf"estimate\.config.*{said}"):
        estimate_profile(script(tmp_path, config="config.json"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipe", "named pipe"),
        ("/proc/self/status", "made up by the kernel"),
        ("/dev/zero", "character device"),
    ],
)
def test_a_config_that_could_be_read_for_ever_is_refused_at_once(
    name: str, said: str, tmp_path: Path
) -> None:
    """A pipe that is never written to, and a file without an end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EstimateError, match=rf"estimate\.config .* is .*{said}"):
        estimate_profile(script(tmp_path, config=name))


def test_parameters_that_the_embeddings_exceed_are_refused(tmp_path: Path) -> None:
    """Said with both counts."""
    with pytest.raises(EstimateError, match=r"12,000,000 parameters do not go with this shape.*16,384,256"):
        estimate_profile(script(tmp_path, parameters=1.2e7, layers=2, width=256))


@pytest.mark.parametrize("parameters", [7e9, 1e6])
def test_parameters_far_from_the_shape_are_refused(parameters: float, tmp_path: Path) -> None:
    """Blocks scaled hundreds of times are no model's."""
    with pytest.raises(EstimateError, match=r"100 layers of width 128, which make [0-9,]+$"):
        estimate_profile(script(tmp_path, parameters=parameters, layers=100, width=128))


def test_more_than_can_be_counted_is_refused(tmp_path: Path) -> None:
    """Numbers that are each right, and whose product no counter holds; and a file of endless layers."""
    with pytest.raises(EstimateError, match="more bytes than can be counted"):
        estimate_profile(
            script(
                tmp_path,
                layers=1,
                width=2**20,
                heads=2**16,
                context=2**24,
                microbatch=2**20,
                attention="eager",
            )
        )
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 10**9, "n_positions": 8, "vocab_size": 8}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
    with pytest.raises(EstimateError, match="1000000000 layers are above the limit"):
        estimate_profile(script(tmp_path, config="config.json"))


def test_what_is_assumed_of_a_script_is_said(tmp_path: Path) -> None:
    """All that memory depends on and that no one wrote; the schema names the same defaults."""
    notes = estimate_profile(script(tmp_path, parameters=1e8)).notes
    said = "microbatch = 8, precision = fp32, optimizer = adamw, distributed.strategy = ddp"
    assert f"assumed for the script, because nothing else is given: {said}" in notes
    for name in ("microbatch", "precision", "optimizer"):
        default = Training.model_fields[name].default
        assert f"Default: {default}." in str(Estimate.model_fields[name].description)
    table = {"parameters": 1e8, "microbatch": 2, "precision": "bf16", "optimizer": "sgd"}
    written = {"run": {"script": "train.py"}, "estimate": table, "distributed": {"strategy": "fsdp"}}
    notes = estimate_profile(config_from_dict(written, tmp_path)).notes
    assert not any("assumed" in note for note in notes)


def test_the_format_of_stored_weights_is_no_precision(tmp_path: Path) -> None:
    """Said with the key that would make it one; not where the precision is written."""
    file = tmp_path / "config.json"
    numbers = {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 100}
    file.write_text(json.dumps({"model_type": "gpt2", "torch_dtype": "bfloat16", **numbers}))
    notes = estimate_profile(script(tmp_path, config=str(file))).notes
    assert any('write estimate.precision = "bf16"' in note for note in notes)
    notes = estimate_profile(script(tmp_path, config=str(file), precision="fp16")).notes
    assert not any("bfloat16" in note for note in notes)
