"""torchtitan's Llama 3 debug model, with a tokenizer of bytes and a text made here: nothing to download.

All of torchtitan's options are arguments, after --module llama3 --config llama3_debugmodel.
"""

import json
import os
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers


def replace_file(path: Path, text: str) -> None:
    """Every rank writes the same file; none ever reads half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.environ.get('RANK', '0')}")
    part.write_text(text)
    part.replace(path)


def prepare(assets: Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    replace_file(assets / "tokenizer/tokenizer.json", tokenizer.to_str())
    tokens = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    replace_file(assets / "tokenizer/tokenizer_config.json", json.dumps(tokens))
    rows = ({"text": " ".join(f"{n} squared is {n * n}." for n in range(k, k + 60))} for k in range(400))
    replace_file(assets / "c4_test/data.json", "\n".join(map(json.dumps, rows)))


if __name__ == "__main__":
    prepare(Path("tests/assets"))  # where the debug model looks
    from torchtitan.train import main

    main()
