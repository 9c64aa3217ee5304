"""`torchdeck schema` prints the JSON schema, the reference, or one key."""

from __future__ import annotations

import argparse
import json

import pytest

from torchdeck.cli import schema
from torchdeck.config.keys import all_keys


def call(*arguments: str) -> int:
    """The command's exit code for these arguments."""
    parser = argparse.ArgumentParser()
    schema.add_parser(parser.add_subparsers())
    args = parser.parse_args(["schema", *arguments])
    code: int = args.handler(args)
    return code


def test_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """It is JSON, has every table and extends, forbids unknown keys, and every reference in it resolves."""
    assert call() == 0
    value = json.loads(capsys.readouterr().out)
    assert {"extends", "name", "run", "model", "data", "training", "launch"} <= set(value["properties"])
    assert value["additionalProperties"] is False
    assert value["$defs"]["Training"]["properties"]["lr"]["exclusiveMinimum"] == 0
    references = json.dumps(value).split('"#/$defs/')[1:]
    assert references
    assert all(reference.partition('"')[0] in value["$defs"] for reference in references)


def test_docs_name_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The reference has a heading for every table and a row for every key, with its description."""
    assert call("--docs") == 0
    text = capsys.readouterr().out
    for key in all_keys().values():
        if key.section is None and not (key.free and len(key.path) == 1):
            assert f"| `{key.path[-1]}` | " in text
            assert key.description in text
        if key.section is not None:
            assert f"## {key.title}\n" in text


def test_many_bytes_are_shown_as_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    """No one counts 536870912."""
    assert call("limits.min_free_disk") == 0
    assert 'default  "512MiB"' in capsys.readouterr().out


@pytest.mark.parametrize("name", [key.name for key in all_keys().values()])
def test_every_key_can_be_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For people and as JSON."""
    assert call(name) == 0
    assert all_keys()[tuple(name.split("."))].description in capsys.readouterr().out
    assert call(name, "--json") == 0
    assert json.loads(capsys.readouterr().out)["key"] == name


def test_conditions_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A key that has an effect under a condition says which."""
    assert call("training.momentum") == 0
    assert 'has an effect with training.optimizer = "sgd"' in capsys.readouterr().out


def test_words_find_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """By the names that other trainers use, too."""
    assert call("batch size") == 0
    assert "training.microbatch       Batch size per GPU\n" in capsys.readouterr().out
    assert call("zebra crossing") == 2


def test_an_unknown_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and the nearest key."""
    assert call("training.lrr") == 2
    assert "expected training.lr" in capsys.readouterr().err


def test_key_and_docs_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Both at once is a usage error."""
    assert call("training.lr", "--docs") == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "right"),
    [("nonsense.key", "one of the keys of a run file: extends, name, run"), ("trainig.a", "training\n")],
)
def test_a_table_that_is_unknown_itself(name: str, right: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The expected value is described for the table, as it has no keys to list."""
    assert call(name) == 2
    assert f"there is no key {name}; expected {right}" in capsys.readouterr().err
