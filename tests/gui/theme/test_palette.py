"""The palette: what must be readable is."""

import pytest

from torchdeck_app.theme.palette import DARK, LIGHT, Palette, contrast, luminance

BOTH = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
TEXTS = ("text", "secondary", "accent", "good", "bad", "warn", "busy", "quiet")


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert luminance("#ffffff") == pytest.approx(1)


@BOTH
@pytest.mark.parametrize("name", TEXTS)
def test_text_is_readable_on_every_ground(palette: Palette, name: str) -> None:
    grounds: tuple[str, ...] = (palette.window, palette.surface)
    if name in ("text", "secondary"):
        grounds = (*grounds, palette.raised, palette.selection)
    for ground in grounds:
        assert contrast(getattr(palette, name), ground) >= 4.5, (name, ground)


@BOTH
def test_what_stands_on_colour_is_readable(palette: Palette) -> None:
    assert contrast(palette.on_accent, palette.accent) >= 4.5
    for ground in palette.groups:
        assert contrast(palette.text, ground) >= 4.5


@BOTH
def test_marks_stand_out(palette: Palette) -> None:
    for colour in palette.series:
        assert contrast(colour, palette.surface) >= 3, colour
    assert len(set(palette.series)) == 8
