"""What a form asks about keys: their types, whether they may be absent, who reads them, their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.keys import all_keys
from torchdeck.config.problems import dotted, undotted
from torchdeck.config.rules.contradictions import is_for_recipes


@pytest.mark.parametrize(
    ("name", "types", "optional"),
    [
        ("extends", ("str",), True),
        ("run.recipe", ("str",), True),
        ("run.args", ("list",), False),
        ("run.env", ("dict",), False),
        ("training.steps", ("int",), True),
        ("training.lr", ("float",), False),
        ("training.betas", ("tuple",), False),
        ("training.compile", ("bool",), False),
        ("training.optimizer", (), False),
        ("distributed.nproc", ("int", "str"), True),
        ("distributed.nodes", ("list", "str"), False),
        ("distributed.devices", ("list",), False),
        ("checkpoint.every", ("int",), True),
        ("limits.min_free_disk", ("size",), False),
        ("cluster.nodes.memory", ("size",), True),
        ("cluster.inter_node", ("size",), True),
        ("estimate.tie_weights", ("bool",), True),
        ("data.max_bytes", ("int",), True),
    ],
)
def test_types_of_keys(name: str, types: tuple[str, ...], optional: bool) -> None:
    """Besides choices; a size is a number or a text with its unit."""
    key = all_keys()[tuple(name.split("."))]
    assert (key.types, key.optional) == (types, optional)


def test_every_value_has_a_type_or_choices() -> None:
    """Else no field could be made for it."""
    for key in all_keys().values():
        assert key.section is not None or key.types or key.choices, key.name


def test_what_only_a_recipe_reads() -> None:
    """Tables, single keys, and the keys below these."""
    assert is_for_recipes(("training", "lr"))
    assert is_for_recipes(("model",))
    assert is_for_recipes(("distributed", "fsdp", "wrap"))
    assert is_for_recipes(("checkpoint", "every"))
    assert not is_for_recipes(("checkpoint", "directory"))
    assert not is_for_recipes(("run", "recipe"))


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5) | st.integers(0, 99), max_size=5)
)
def test_a_dotted_name_has_one_path(path: list[str | int]) -> None:
    """Whatever stands in the keys."""
    assert undotted(dotted(path)) == tuple(path)
