"""Prompts and responses of any length, as bytes, and how long each is. torch is not needed.

A sample's length is that of prompt and response together: so many bytes a model reads of it, as the byte that
ends a response is only predicted. `torchdeck batchplan build` counts the same.
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
from torchdeck.distributed.recipe import RecipeError
from torchdeck.recipes.text_files import STDLIB, ordered_files

CONTEXT = 256
"""Longest sample where [model] does not say; longer ones are cut."""


class Pair(NamedTuple):
    """One sample."""

    prompt: bytes
    """Read, and not learnt; may be empty."""
    response: bytes


@dataclass(frozen=True)
class Pairs:
    """The samples of one split."""

    samples: Sequence[Pair]
    context: int
    fingerprint: str
    """SHA-256 in hexadecimal: of the file where all of it is this split, as a batch plan has it; else of the
    samples."""
    whole_file: bool

    @property
    def lengths(self) -> list[int]:
        """Bytes that are read of each sample."""
        return [min(len(pair.prompt) + len(pair.response), self.context) for pair in self.samples]


def data_options(model: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The [data] table with the longest sample, which is the model's context."""
    return {"context": model.get("context", CONTEXT), **data}


def read_pairs(options: dict[str, Any], split: str) -> Pairs | None:
    """The samples of one split; None for "heldout" where nothing is held out.

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
    """A sample a line: of a .jsonl prompt and response, or text; of another file the line is the response."""
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
    # JSON may hold half a surrogate pair, which UTF-8 proper cannot
    return Pair(prompt.encode("utf-8", "surrogatepass"), response.encode("utf-8", "surrogatepass"))


def _functions() -> Iterator[Pair]:
    """Functions of Python's standard library: head and docstring as the prompt, the body as the response."""
    for path in ordered_files(Path(sysconfig.get_paths()["stdlib"]), ".py"):
        try:
            text = path.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in the strings of old modules
                tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError):
            continue
        lines = text.split("\n")  # as ast counts them; str.splitlines knows other ends of lines too
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _documented(node, lines)


def _documented(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> Iterator[Pair]:
    """The function as a sample; none where it has no docstring, or nothing else."""
    first = node.body[0]
    if ast.get_docstring(node) is None or len(node.body) == 1 or first.end_lineno is None:
        return
    whole = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])).split("\n")
    head, body = whole[: first.end_lineno - node.lineno + 1], whole[first.end_lineno - node.lineno + 1 :]
    if body:
        yield Pair("\n".join([*head, ""]).encode(), "\n".join(body).encode())
