"""Prompts and responses from files and from the standard library."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from torchdeck.data.batch_plan import measure_dataset
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.prompt_pairs import Pairs, read_pairs

LINES = [
    {"prompt": "a?", "response": "bé"},
    {"text": "only"},
    {"prompt": "", "response": ""},
    {"prompt": "x\n", "response": "y"},
]


def pairs_of(path: Path, split: str = "train", **options: Any) -> Pairs:
    pairs = read_pairs({"source": str(path), "heldout": 0.0, **options}, split)
    assert pairs is not None
    return pairs


def written(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_lines_are_samples(tmp_path: Path) -> None:
    """Prompt and response, or text alone, as UTF-8; what is held out is at the end; the context cuts."""
    path = written(tmp_path / "a.jsonl", LINES)
    assert pairs_of(path).samples == [(b"a?", "bé".encode()), (b"", b"only"), (b"", b""), (b"x\n", b"y")]
    assert pairs_of(path).lengths == [5, 4, 0, 3]
    assert pairs_of(path, context=4).lengths == [4, 4, 0, 3]
    assert pairs_of(path, "heldout", heldout=0.25).samples == [(b"x\n", b"y")]
    assert pairs_of(path, max_samples=2).lengths == [5, 4]
    assert read_pairs({"source": str(path), "heldout": 0.0}, "heldout") is None
    (tmp_path / "a.txt").write_bytes(b"one\n\nthree")
    assert pairs_of(tmp_path / "a.txt").samples == [(b"", b"one"), (b"", b""), (b"", b"three")]


@pytest.mark.parametrize("name", ["pairs.jsonl", "text.jsonl", "lines.txt"])
def test_a_plan_of_the_file_fits_the_recipe(name: str, tmp_path: Path) -> None:
    """`batchplan build --dataset` measures the same lengths, and its fingerprint is the data set's."""
    path = tmp_path / name
    texts = ["first", "s\u00e9cond", "the third is longer"]
    if name == "pairs.jsonl":
        written(path, [{"prompt": text[:2], "response": text[2:]} for text in texts])
    elif name == "text.jsonl":
        written(path, [{"text": text} for text in texts])
    else:
        path.write_text("\n".join(texts))
    measured, pairs = measure_dataset(path), pairs_of(path)
    assert measured.lengths.tolist() == pairs.lengths == [5, 7, 19]
    assert (measured.unit, measured.fingerprint) == ("bytes", pairs.fingerprint)
    part = pairs_of(path, heldout=0.4)
    assert len(part.samples) == 2
    assert part.fingerprint != pairs.fingerprint
    assert not part.whole_file


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '{"prompt": "a", "response": "b"}\n{"prompt": "a"}\n',
            'line 2 is no sample: it must have "prompt" and',
        ),
        ('{"prompt": 3, "response": "b"}\n', "line 1 is no sample"),
        ('["a", "b"]\n', "line 1 is no sample"),
        ('{"text": "a"}\n\n{"text": "b"}\n', "line 2 is not JSON"),
        ("", "holds no samples"),
        (None, "cannot be read: No such file"),
    ],
)
def test_bad_files_get_a_sentence(content: str | None, sentence: str, tmp_path: Path) -> None:
    """The line is named."""
    if content is not None:
        (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(RecipeError, match=sentence):
        pairs_of(tmp_path / "a.jsonl")


def test_functions_of_the_standard_library() -> None:
    """Heads with docstrings as prompts, bodies as responses, of many lengths; together they are Python."""
    pairs = read_pairs({"source": "stdlib", "max_samples": 60, "heldout": 0.5, "context": 10_000}, "train")
    assert pairs is not None
    assert len(pairs.samples) == 30
    assert len(set(pairs.lengths)) > 20
    for prompt, response in pairs.samples:
        assert prompt.startswith((b"def ", b"async def "))
        assert response.startswith((b"    ", b"\n", b"\t"))
        compile(prompt + response, "pair", "exec", dont_inherit=True)


def test_a_source_that_could_be_read_for_ever_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe that is never written to, and a device; a line of brackets is no sample."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "deep.jsonl").write_bytes(b"[" * 100_000)
    for source, why in (
        ("pipe.jsonl", "named pipe"),
        ("/dev/zero", "device"),
        ("deep.jsonl", "line 1 is not JSON"),
    ):
        with pytest.raises(RecipeError, match=why):
            read_pairs({"source": str(tmp_path / source)}, "train")
