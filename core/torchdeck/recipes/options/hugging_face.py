"""Options of the built-in recipe hf-causal-lm: a Hugging Face language model learns to answer prompts."""

from __future__ import annotations

from typing import Literal

from torchdeck.options import Section, option
from torchdeck.recipes.options.byte_finetune import PairsData
from torchdeck.recipes.options.initial_weights import init_from_option, init_names_option, init_new_option


class CausalLanguageModel(Section):
    """The [model] table of recipe hf-causal-lm: a model in a folder, and what of it is trained."""

    path: str = option(
        "Folder of a Hugging Face causal language model, with its weights (.safetensors) and tokenizer. "
        "Nothing is downloaded.",
        label="Model folder",
        default="model",
        path=True,
        min_length=1,
        right="the folder of a model, with config.json in it",
    )
    method: Literal["lora", "full"] = option(
        "lora: small matrices beside the linear layers are trained (LoRA, by PEFT), and the model itself is "
        "not. full: all of the model is trained.",
        default="lora",
    )
    rank: int = option("Rank of LoRA's matrices.", label="LoRA rank", default=16, ge=1, le=4096)
    alpha: float = option(
        "LoRA's output is multiplied by alpha / rank.", label="LoRA alpha", default=32.0, gt=0
    )
    dropout: float = option("Fraction of LoRA's input dropped in training.", default=0.0, ge=0, lt=1)
    targets: list[str] = option(
        "Names of the linear layers that LoRA is for. Default: all but the last, which gives the next token.",
        label="LoRA layers",
        default=[],
        right='a list of names, such as ["q_proj", "v_proj"]',
    )
    context: int = option(
        "Longest sample; longer ones are cut at the end.",
        label="Context length",
        default=512,
        unit="tokens",
        ge=2,
        le=1_048_576,
    )
    init_from: str | None = init_from_option()
    init_names: dict[str, str] = init_names_option()
    init_new: list[str] = init_new_option()


class ConversationData(PairsData):
    """The [data] table of recipe hf-causal-lm: prompts and responses, as that of byte-finetune."""
