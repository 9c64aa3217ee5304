"""Which modules are FSDP units."""

import pytest
from torch import nn

from torchdeck.distributed.fsdp_units import blocks_of, units_by_size, units_of
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import RecipeError


def test_units_by_size_do_not_overlap() -> None:
    """The innermost modules that are large enough, containers that are never called left out."""
    small, large = nn.Linear(2, 2), nn.Linear(10, 10)
    pair = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5))
    model = nn.Sequential(nn.ModuleList([small, large]), pair, small)
    assert units_by_size(model, 40) == [large, pair]
    assert units_by_size(model, 1000) == []


def test_a_tied_weight_is_in_a_unit_that_holds_all_its_users() -> None:
    """Two layers with one weight are no units of their own; what holds both may be one."""
    first, second, other = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    second.weight = first.weight
    apart = nn.Sequential(first, other, second)
    assert units_by_size(apart, 64) == [other]
    together = nn.Sequential(nn.Sequential(first, second), other)
    assert units_by_size(together, 64) == [together[0], other]


def test_a_module_used_twice_is_one_unit() -> None:
    """A layer that two parents hold is sharded once."""
    layer = nn.Linear(8, 8)
    model = nn.Sequential(nn.Sequential(layer, nn.ReLU()), nn.Sequential(layer, nn.Tanh()))
    assert units_by_size(model, 64) == [layer]
    assert blocks_of(model, lambda _: [layer, layer]) == [layer]


def test_blocks_must_be_modules_of_the_model() -> None:
    """A block from elsewhere is refused, the model itself skipped."""
    model = nn.Sequential(nn.Linear(2, 2))
    assert blocks_of(model, lambda m: [m, m[0]]) == [model[0]]  # type: ignore[index]
    with pytest.raises(RecipeError, match="not a module of the model"):
        blocks_of(model, lambda _: [nn.ReLU()])


def test_blocks_inside_others_come_first() -> None:
    """As fully_shard must be called; else the order is the recipe's."""
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2), nn.ReLU())
    outer, first, second = model[0], model[0][0], model[0][1]  # type: ignore[index]
    found = blocks_of(model, lambda m: [m[2], outer, second, first, m[1]])  # type: ignore[index]
    assert found == [model[2], second, first, model[1], outer]


@pytest.mark.parametrize("container", [nn.ModuleList([nn.ReLU()]), nn.ModuleDict({"a": nn.ReLU()})])
def test_a_container_is_no_block(container: nn.Module) -> None:
    """Nothing calls it, so it would never be gathered, nor computed again."""
    with pytest.raises(RecipeError, match="never called itself: return the modules in it one by one"):
        blocks_of(nn.Sequential(container), lambda _: [container])


def test_wrapping_by_block_asks_for_blocks() -> None:
    """The sentence names both ways out."""
    with pytest.raises(RecipeError, match=r"function blocks\(model\).*or set distributed.fsdp.wrap"):
        units_of(nn.Linear(2, 2), None, FsdpSettings(wrap="block"))
