"""Counts and memory of models by their config.json are those of the real models of transformers and peft."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.hugging_face.adapters import adapted_tensors, lora_targets
from torchdeck.plan.hugging_face.model_weights import FAMILIES, model_weights
from torchdeck.plan.hugging_face.program_model import ProgramModel, program_models, ranged
from torchdeck.plan.memory.predict import predict_memory
from torchdeck.plan.memory.training_state import sharded_state
from torchdeck.trainers.arguments import Named
from torchdeck.trainers.program_settings import program_settings

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(trainers_python() is None, reason=ABSENT),
]

HERE = Path(__file__).parent
MIB = 2**20


@cache
def measured(program: str) -> Any:
    """What a program beside this file prints, as JSON, under the Python of the trainers."""
    python = trainers_python()
    assert python is not None
    result = subprocess.run(
        [python, str(HERE / "measure" / program)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_tensor_has_the_shape_of_the_real_models(family: str) -> None:
    """Of the family's usual size and of a tiny model with other numbers, with the head its config names."""
    found = [model for model in measured("model_shapes.py")["models"] if model["family"] == family]
    assert len(found) >= 2
    for model in found:
        weights = model_weights(model["config"])
        shapes = sorted(list(size) for _, size, _ in weights.named())
        assert weights.parameters == model["parameters"], model["class"]
        assert shapes == model["shapes"], model["class"]


def test_adapters_have_as_many_elements_as_those_of_peft() -> None:
    for model in measured("model_shapes.py")["adapted"]:
        config = model["config"]
        targets = lora_targets(config["model_type"], 8, model["targets"])
        tensors = adapted_tensors(model_weights(config), "float32", targets, None)
        trained = sum(tensor.numel for tensor in tensors if tensor.trainable)
        assert trained == model["trainable"], (config["model_type"], model["targets"])


def predicted(case: dict[str, Any]) -> ProgramModel:
    """The model of a measured case, by the arguments that a program would have."""
    arguments = {"per_device_train_batch_size": case["microbatch"], "max_length": case["sequence"]}
    if case["lora"]:
        arguments["lora_r"] = case["lora"]
    if case["checkpointing"]:
        arguments["gradient_checkpointing"] = "true"
    given = [(name, Named(str(value), f"--{name}")) for name, value in arguments.items()]
    (model,) = program_models(case["config"], program_settings(given), "config.json", trl=False)
    return model


def tensor_bytes(model: ProgramModel, peak: str = "peak_bytes") -> int:
    """Bytes of all tensors of one rank at the peak, without the process."""
    spec = model.training.spec(1, 1, "cuda", "nccl")
    (memory,) = predict_memory(model.profile, spec)
    return int(getattr(memory, peak)) - memory.terms["context"]


def test_the_peak_of_all_tensors_is_as_predicted() -> None:
    """Of two steps with AdamW: weights, gradients, moments, activations and logits, exactly measured."""
    for case in measured("peaks.py"):
        model = predicted(case)
        at_peak, real = tensor_bytes(model), case["peak"]
        named = f"{case['config']['model_type']}: {at_peak / MIB:.1f} MiB predicted, {real / MIB:.1f} real"
        if not case["lora"]:
            assert abs(at_peak - real) <= 0.04 * real, named
            continue
        activations = sum(
            predict_memory(model.profile, model.training.spec(1, 1, "cuda", "nccl"))[0].terms.get(term, 0)
            for term in ("activations", "logits")
        )
        assert at_peak - model.below * activations <= real <= at_peak * 1.02, named


@pytest.mark.soak  # a normal run measures the peak of one rank, above
def test_state_of_two_sharded_ranks_is_as_predicted() -> None:
    """Weights, gradients and moments of two gloo ranks to the byte: DDP, FSDP, FSDP with LoRA."""
    for case in measured("sharded_state.py"):
        model = predicted(case)
        profile = model.profile
        spec = model.training.spec(2, 2, "cpu", "gloo").with_kind(case["kind"])
        state = sharded_state(profile, spec)
        for rank, real in zip((0, 1) if case["kind"] == "fsdp" else (0, 0), case["ranks"], strict=True):
            assert int(state.parameters[rank]) == real["parameters"]
            assert int(state.gradients[rank]) == real["gradients"]
            assert int(state.optimizer[rank]) == real["optimizer"]


@pytest.mark.soak  # a normal run measures all tensors here, and processes of recipes in tests/distributed
def test_processes_of_the_trainer_need_what_is_predicted() -> None:
    """The resident set of two DDP ranks of the Hugging Face Trainer is in the range."""
    case = measured("trainer_peak.py")
    model = predicted(case)
    (memory,) = ranged(predict_memory(model.profile, model.training.spec(2, 2, "cpu", "gloo")), model)
    for real in case["peaks"]:
        sizes = [size / MIB for size in (memory.low_bytes, real, memory.high_bytes)]
        assert sizes == sorted(sizes), f"{sizes} MiB"


def test_quantized_weights_take_the_bytes_of_bitsandbytes() -> None:
    """Half a byte and 1/16 for scales, or a byte and 4 bytes per row; embeddings stay whole."""
    config = {
        "model_type": "llama", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
    }  # fmt: skip
    weights, targets = model_weights(config), lora_targets("llama", 4, "")

    def blocks(tensors: tuple[TensorInfo, ...]) -> int:
        return sum(
            each.size for each in tensors if not each.trainable and each.unit and "norm" not in each.name
        )

    matrices = 2 * (4 * 256 * 256 + 3 * 256 * 512)
    rows = 2 * (4 * 256 + 2 * 512 + 256)
    assert blocks(adapted_tensors(weights, "bfloat16", targets, 4)) == matrices // 2 + matrices // 64 * 4
    assert blocks(adapted_tensors(weights, "bfloat16", targets, 8)) == matrices + 4 * rows
    assert blocks(adapted_tensors(weights, "bfloat16", targets, None)) == 2 * matrices
