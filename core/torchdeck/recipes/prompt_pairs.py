"""Prompts and responses of any length, as bytes, and their lengths. Does not need torch.

A sample's length is that of prompt and response together. That is how many bytes of it a model reads, as the
byte that ends a response is only predicted. `torchdeck batchplan build` counts the same.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.bounded_file import open_regular
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.text_files import STDLIB, ordered_files

CONTEXT = 256
"""Default length of the longest sample if [model] does not set it; longer ones are truncated."""


class Pair(NamedTuple):
    """One sample."""

    prompt: bytes
    """Read but not learned; may be empty."""
    response: bytes


@dataclass(frozen=True)
class Pairs:
    """Samples of one split."""

    samples: Sequence[Pair]
    context: int
    fingerprint: str
    """SHA-256 in hexadecimal: of the file if all of it is this split, as in a batch plan; else of the
    samples.
    """
    whole_file: bool

    @property
    def lengths(self) -> list[int]:
        """Bytes read from each sample."""
        return [min(len(pair.prompt) + len(pair.response), self.context) for pair in self.samples]


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] table with the length of the longest sample, which is the model's context."""
    return {"context": model.get("context", CONTEXT), **data}


def read_pairs(options: dict[str, Any], split: str) -> Pairs | None:
    """Read the samples of one split; None for "heldout" if nothing is held out.

    Args:
        options: source, heldout, max_samples, and context from the model.
        split: "train", from the beginning, or "heldout", at the end.

    Raises:
        RecipeError: the source cannot be read, or holds no samples.
    """
    source, most = options.get("source", STDLIB), options.get("max_samples")
    samples = list(_samples(source, most))
    if not samples:
        raise RecipeError(f"data.source {source} holds no samples: give a file with at least one line")
    cut = len(samples) - int(len(samples) * options.get("heldout", 0.05))
    if split == "heldout" and cut == len(samples):
        return None
    part = samples[:cut] if split == "train" else samples[cut:]
    whole = source != STDLIB and most is None and len(part) == len(samples)
    digest = hashlib.sha256()
    if whole:
        with open_regular(source) as file:
            digest.update(file.read())
    for pair in () if whole else part:
        digest.update(b"%d %d " % (len(pair.prompt), len(pair.response)) + pair.prompt + pair.response)
    return Pairs(part, options.get("context", CONTEXT), digest.hexdigest(), whole)


def _samples(source: str, most: int | None) -> Iterator[Pair]:
    found = _functions() if source == STDLIB else _lines(Path(source))
    for number, pair in enumerate(found):
        if number == most:
            return
        yield pair


def _lines(path: Path) -> Iterator[Pair]:
    """Yield one sample per line: prompt and response, or text, of a .jsonl; in other files the line is the
    response.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise RecipeError(
            f'data.source {path} cannot be read: {error.strerror}; give "{STDLIB}", or the path of a .jsonl '
            "or text file"
        ) from error
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, 1):
        yield _parsed(line, path, number) if path.suffix == ".jsonl" else Pair(b"", line)


def _parsed(line: bytes, path: Path, number: int) -> Pair:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{path}, line {number} is not JSON: {error}") from error
    fields = value if isinstance(value, dict) else {}
    prompt, response = (
        ("", fields["text"]) if "text" in fields else (fields.get("prompt"), fields.get("response"))
    )
    if not isinstance(prompt, str) or not isinstance(response, str):
        raise RecipeError(
            f'{path}, line {number} is no sample: it must have "prompt" and "response", or "text"'
        )
    # JSON may hold half a surrogate pair, which valid UTF-8 cannot
    return Pair(prompt.encode("utf-8", "surrogatepass"), response.encode("utf-8", "surrogatepass"))


def _functions() -> Iterator[Pair]:
    """Yield functions of Python's standard library: head and docstring as the prompt, the body as the
    response.
    """
    for path in ordered_files(Path(sysconfig.get_paths()["stdlib"]), ".py"):
        try:
            text = path.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about escapes in the strings of old modules
                tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError):
            continue
        lines = text.split("\n")  # as ast counts them; str.splitlines has other line ends too
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _documented(node, lines)


def _documented(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> Iterator[Pair]:
    """Yield the function as a sample; none if it has no docstring, or nothing else."""
    first = node.body[0]
    if ast.get_docstring(node) is None or len(node.body) == 1 or first.end_lineno is None:
        return
    whole = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])).split("\n")
    head, body = whole[: first.end_lineno - node.lineno + 1], whole[first.end_lineno - node.lineno + 1 :]
    if body:
        yield Pair("\n".join([*head, ""]).encode(), "\n".join(body).encode())
