"""Shapes of all parameters of real models, made without memory; printed as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from models import as_file, tiny
from peft import LoraConfig, get_peft_model
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)

FAMILIES = Path(__file__).with_name("families.txt").read_text(encoding="utf-8").split()
ENCODERS = ("bert", "roberta")
WITHOUT_CLASSIFIER = ("granite", "cohere")
ADAPTED = (
    ("llama", ""), ("llama", "all-linear"), ("llama", "['k_proj', 'down_proj']"), ("gpt2", ""),
    ("gpt_neox", ""), ("bert", ""), ("phi", ""), ("opt", "q_proj,fc1"), ("phi3", "qkv_proj gate_up_proj"),
)  # fmt: skip


def made(kind: Any, config: Any) -> Any:
    with torch.device("meta"):
        return kind.from_config(config)


def shapes(family: str, model: Any, config: Any) -> dict[str, Any]:
    parameters = list(model.parameters())
    return {
        "family": family,
        "class": type(model).__name__,
        "config": as_file(config, model),
        "parameters": sum(parameter.numel() for parameter in parameters),
        "shapes": sorted(list(parameter.shape) for parameter in parameters),
    }


def models() -> list[dict[str, Any]]:
    found = []
    for family in FAMILIES:
        kind = AutoModelForMaskedLM if family in ENCODERS else AutoModelForCausalLM
        kinds = (kind,) if family in WITHOUT_CLASSIFIER else (kind, AutoModelForSequenceClassification)
        for config in (CONFIG_MAPPING[family](), tiny(family)):
            found += [shapes(family, made(each, config), config) for each in kinds]
    return found


def adapted() -> list[dict[str, Any]]:
    found = []
    for family, targets in ADAPTED:
        config = tiny(family)
        kind = AutoModelForMaskedLM if family in ENCODERS else AutoModelForCausalLM
        model = made(kind, config)
        file = as_file(config, model)
        words = targets.strip("[]").replace("'", "").replace(",", " ").split()
        wanted = None if not words else words[0] if words == ["all-linear"] else words
        with torch.device("meta"):
            model = get_peft_model(model, LoraConfig(r=8, target_modules=wanted))
        trainable = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        found.append({"config": file, "targets": targets, "trainable": trainable})
    return found


if __name__ == "__main__":
    json.dump({"models": models(), "adapted": adapted()}, sys.stdout)
