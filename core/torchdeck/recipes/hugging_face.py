"""Recipe hf-causal-lm: a Hugging Face language model learns to answer prompts, as a whole or by LoRA.

The model is a folder on this machine; nothing is downloaded, and no code of the folder is executed. Samples
are read as by byte-finetune, with the model's tokenizer. Each token of a response is a target, and so is the
one that ends it. LoRA is PEFT's (Hu et al., arXiv 2106.09685).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.environment import RunContext
from torchdeck.recipes.prompt_pairs import Pair, Pairs, read_pairs
from torchdeck.recipes.responses import Sample, collate, mean_loss, sample_of

__all__ = ["ResponseTokens", "blocks", "build_data", "build_model", "collate", "data_options", "loss"]

CONTEXT = 512
DEFAULTS: dict[str, Any] = {
    "path": "model",
    "method": "lora",
    "rank": 16,
    "alpha": 32.0,
    "dropout": 0.0,
    "targets": [],
    "context": CONTEXT,
}
"""Defaults of the [model] table."""

_LOCAL = {"local_files_only": True, "trust_remote_code": False}
"""Nothing is downloaded, and no code of the folder is executed."""


class ResponseTokens(Dataset[Sample]):
    """Samples of up to `context` tokens; longer ones are cut at the end."""

    def __init__(self, pairs: Pairs, tokenizer: Any) -> None:
        """Take the samples.

        Args:
            pairs: prompts and responses, in UTF-8.
            tokenizer: of transformers.
        """
        self._pairs, self._tokenizer = pairs, tokenizer

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the text; it is not that in a batch plan of its bytes, which has other lengths."""
        return f"tokens-{self._pairs.fingerprint}"

    def __len__(self) -> int:
        return len(self._pairs.samples)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} is out of range: there are {len(self)}")
        return sample_of(*self._tokens(self._pairs.samples[index]), self._pairs.context)

    def _tokens(self, pair: Pair) -> tuple[Any, int]:
        """Return all tokens, int64 of shape (length,), and how many are the prompt's."""
        prompt, response = (text.decode("utf-8", "replace") for text in pair)
        begin = list(self._tokenizer(prompt)["input_ids"])
        rest = list(self._tokenizer(response, add_special_tokens=False)["input_ids"])
        end = [] if self._tokenizer.eos_token_id is None else [self._tokenizer.eos_token_id]
        whole = [*begin, *rest, *end]
        return np.array(whole, dtype=np.int64), len(begin)


def build_model(options: dict[str, Any]) -> nn.Module:
    """Build the model of a [model] table: path, method, rank, alpha, dropout, targets.

    Its weights are read, in float32, unless they would not be used: in a trace, whose tensors have no values,
    and in a run that resumes from a checkpoint of its own.

    Raises:
        RecipeError: transformers or PEFT is missing, the folder has no such model, or none of its layers is
            a target.
    """
    chosen = DEFAULTS | options
    model = _pretrained(Path(chosen["path"]))
    if chosen["method"] == "full":
        return model
    peft = _imported("peft")
    lora = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=chosen["rank"],
        lora_alpha=chosen["alpha"],
        lora_dropout=chosen["dropout"],
        target_modules=chosen["targets"] or "all-linear",
    )
    try:
        return peft.get_peft_model(model, lora)  # type: ignore[no-any-return]
    except ValueError as error:
        raise RecipeError(f"model.targets: {error}") from error


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] table with the length of the longest sample and the folder of the tokenizer."""
    return {"context": model.get("context", CONTEXT), "path": model.get("path", DEFAULTS["path"]), **data}


def build_data(options: dict[str, Any], split: str) -> ResponseTokens | None:
    """Build the samples read by `read_pairs`; None if nothing is held out.

    Args:
        options: as for `read_pairs`, and the path of the model.
        split: "train" or "heldout".

    Raises:
        RecipeError: they or the tokenizer cannot be read.
    """
    pairs = read_pairs(options, split)
    if pairs is None:
        return None
    folder = options["path"]
    transformers = _imported("transformers")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **_LOCAL)
    except Exception as error:  # other packages parse its files, each with errors of its own
        raise RecipeError(
            f"model.path {folder} has no tokenizer that can be read: {_first_line(error)}"
        ) from error
    return ResponseTokens(pairs, tokenizer)


def loss(model: nn.Module, batch: dict[str, Any]) -> tuple[Tensor, int]:
    """Return the mean cross entropy in nats per token of the responses, and the number of those tokens.

    Raises:
        RecipeError: samples share rows, and the model's attention cannot keep them apart.
    """
    more = {}
    if "mask" in batch:  # several samples share a row
        kind = _attention(model)
        if kind != "sdpa":  # eager attention would add the mask's True as 1
            raise RecipeError(
                f"the model's attention is {kind!r}, which cannot keep samples apart that share a row: build "
                "the batch plan without --pack"
            )
        more = {"attention_mask": batch["mask"], "position_ids": batch["positions"]}
    logits = model(input_ids=batch["tokens"], use_cache=False, **more).logits
    return mean_loss(logits, batch)


def _attention(model: nn.Module) -> str:
    """Return the name of the model's attention, as in transformers' `attn_implementation`."""
    configs: Iterator[Any] = (getattr(each, "config", None) for each in model.modules())
    return next(str(config._attn_implementation) for config in configs if config is not None)  # noqa: SLF001 - has no public name


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """Return the layers of the transformer: the longest list of modules."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len, default=[])


def _pretrained(folder: Path) -> nn.Module:
    transformers = _imported("transformers")
    traced = type(torch.empty(0)) is not Tensor
    if not (folder / "config.json").is_file():
        raise RecipeError(f"model.path {folder} is no folder of a model: it has no config.json")
    try:
        if traced or RunContext.from_env().resume is not None:
            config = transformers.AutoConfig.from_pretrained(folder, **_LOCAL)
            return transformers.AutoModelForCausalLM.from_config(  # type: ignore[no-any-return]
                config, dtype=torch.float32, trust_remote_code=False
            )
        model, found = transformers.AutoModelForCausalLM.from_pretrained(
            folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **_LOCAL
        )
    except Exception as error:  # other packages parse its files, each with errors of its own
        raise RecipeError(f"model.path {folder} cannot be read: {_first_line(error)}") from error
    lacking = [*found["missing_keys"], *(each[0] for each in found["mismatched_keys"])]
    if lacking:  # transformers would begin with random values
        raise RecipeError(f"model.path {folder} lacks weights of the model, such as {min(lacking)}")
    return model  # type: ignore[no-any-return]


def _imported(name: str) -> Any:
    """Import transformers or PEFT.

    Raises:
        RecipeError: it is missing.
    """
    try:
        return __import__(name)
    except ImportError as error:
        raise RecipeError(
            f"recipe hf-causal-lm needs {name} ({error}): pip install 'torchdeck[hf]' on every node"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
