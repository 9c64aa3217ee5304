"""Colours of memory's parts and verdicts: they stand out where they are painted."""

import pytest

from torchdeck.plan.memory.fullness import SERIOUSNESS
from torchdeck.plan.preview.memory_bars import TERMS, VERDICT_SIGNS
from torchdeck_app.launch.preview.headline import VERDICT_COLOURS
from torchdeck_app.launch.preview.memory_bars import term_colour
from torchdeck_app.theme.palette import DARK, LIGHT, Palette, contrast


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_parts_stand_out_on_their_grounds(palette: Palette) -> None:
    colours = [term_colour(term.name, palette).name() for term in TERMS]
    assert len(set(colours)) == len(TERMS)
    for colour in colours:
        for ground in (palette.surface, palette.raised):
            assert contrast(colour, ground) >= 3, (colour, ground)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_verdict_has_a_readable_colour_and_a_sign(palette: Palette) -> None:
    for verdict in SERIOUSNESS:
        assert contrast(getattr(palette, VERDICT_COLOURS[verdict]), palette.surface) >= 4.5
    assert set(VERDICT_SIGNS) == set(SERIOUSNESS)
