"""Values as lines of text, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.keys import all_keys
from torchdeck_app.launch.form.codecs import (
    ANYTHING,
    ARGUMENTS,
    SCALAR,
    SIZE,
    TEXT,
    UnreadableError,
    codec_of,
)
from torchdeck_app.launch.form.form_state import Kind, kind_of, words_of


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("training.lr", "3e-4", 3e-4),
        ("training.lr", "abc", "abc"),
        ("training.lr", "1,5", "1,5"),
        ("training.lr", "nothing # here", "nothing # here"),
        ("training.steps", " 12 ", 12),
        ("training.steps", "12.5", 12.5),
        ("training.betas", "0.9, 0.95", [0.9, 0.95]),
        ("training.betas", "[0.9, 0.95]", [0.9, 0.95]),
        ("checkpoint.every", "auto", "auto"),
        ("checkpoint.every", "100", 100),
        ("distributed.nproc", "2:3", "2:3"),
        ("distributed.nproc", "2", 2),
        ("distributed.devices", "auto", "auto"),
        ("distributed.devices", "0, 1", [0, 1]),
        ("distributed.devices", "GPU-8f, GPU-9a", ["GPU-8f", "GPU-9a"]),
        ("distributed.nodes", "gpu[0,4-7], b", ["gpu[0,4-7]", "b"]),
        ("distributed.nodes", "node-a", ["node-a"]),
        ("distributed.nodes", "1:2", "1:2"),
        ("limits.min_free_disk", "512MiB", "512MiB"),
        ("limits.min_free_disk", "1024", 1024),
        ("run.args", "--name 'a b' --lr 0.1", ["--name", "a b", "--lr", "0.1"]),
        ("name", "3", "3"),
        ("name", "true", "true"),
    ],
)
def test_what_is_typed_is_what_is_meant(key: str, text: str, value: Any) -> None:
    """A number where one is one, text else; the schema says whether it is right."""
    typed = codec_of(all_keys()[tuple(key.split("."))]).read(text)
    assert typed.value == value
    assert type(typed.value) is type(value)


def test_a_number_stays_as_it_is_typed() -> None:
    """It is the literal that is written."""
    assert SCALAR.read(" 3e-4 ").literal == "3e-4"
    assert SCALAR.read("1_000").literal == "1_000"


@pytest.mark.parametrize(
    ("codec", "value", "text"),
    [
        (SIZE, 512 * 2**20, "512MiB"),
        (SIZE, 80 * 2**30, "80GiB"),
        (SIZE, 1000, "1000"),
        (SIZE, "50GB/s", "50GB/s"),
        (SCALAR, 600.0, "600"),
        (SCALAR, 0.001, "0.001"),
        (TEXT, "two\nlines", '"two\\nlines"'),
        (ARGUMENTS, [1], "[1]"),
        (ANYTHING, "3", '"3"'),
        (ANYTHING, {"a": [1]}, "{a = [1]}"),
    ],
)
def test_what_is_shown(codec: Any, value: Any, text: str) -> None:
    """As a person would write it; what does not fit, as TOML."""
    assert codec.show(value) == text


def test_what_cannot_be_read_says_why() -> None:
    """And what would be right."""
    with pytest.raises(UnreadableError, match="quotation"):
        ARGUMENTS.read("--name 'a")
    with pytest.raises(UnreadableError, match="brackets"):
        codec_of(all_keys()[("distributed", "nodes")]).read("gpu[0-3, b")


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_arguments_come_back(values: list[str]) -> None:
    """Whatever stands in them."""
    assert ARGUMENTS.read(ARGUMENTS.show(values)).value == values


@given(
    st.lists(WORDS | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.booleans(), max_size=4)
)
def test_items_come_back(values: list[Any]) -> None:
    """Text that looks like a number is in quotes."""
    codec = codec_of(all_keys()[("distributed", "devices")])
    if values in (["auto"], ["cpu"]):
        return
    assert codec.read(codec.show(values)).value == values


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back(value: float) -> None:
    """With their literal."""
    typed = SCALAR.read(SCALAR.show(value))
    assert typed.value == value


@given(WORDS.filter(lambda text: bool(text.strip())))
def test_text_comes_back(value: str) -> None:
    """As it is."""
    assert TEXT.read(TEXT.show(value)).value == value


VALUES = st.recursive(
    st.integers(-5, 5) | st.booleans() | WORDS | st.floats(-1, 1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
)


@given(VALUES)
def test_anything_comes_back(value: Any) -> None:
    """A value of a key that no one knows."""
    typed = ANYTHING.read(ANYTHING.show(value))
    assert typed.value == value


@given(VALUES, st.sampled_from([key for key in all_keys().values() if key.section is None]))
def test_every_field_shows_anything(value: Any, key: Any) -> None:
    """A wrong value is shown too, and in a control that can."""
    shown = codec_of(key).show(value)
    assert isinstance(shown, str)
    kind = kind_of(key, value)
    assert kind is Kind.LINE or kind_of(key, None) is kind


def test_words_to_choose_from() -> None:
    """Of choices, and of paths that may be words."""
    keys = all_keys()
    recipes = ("bdh", "byte-finetune", "byte-gpt", "digits", "hf-causal-lm", "image-folder")
    assert words_of(keys[("run", "recipe")]) == recipes
    assert words_of(keys[("checkpoint", "resume")]) == ("auto", "never")
    assert words_of(keys[("checkpoint", "every")]) == ("auto",)
    assert words_of(keys[("run", "script")]) == ()
