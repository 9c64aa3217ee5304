"""The preview as a picture."""

import dataclasses
import re
from xml.etree import ElementTree as ET

import pytest

from support.values.previews import memory, preview, with_memory
from torchdeck.cli.plan.svg_canvas import BODY, escaped, fitted, text_width, wrapped
from torchdeck.cli.plan.svg_page import WIDTH, preview_svg
from torchdeck.plan.preview import Preview

SVG = "{http://www.w3.org/2000/svg}"
LONG = "a-machine-with-a-name-that-goes-on-and-on-and-on-{:04d}.rack-17.cluster.example.org"


def drawn(made: Preview) -> ET.Element:
    """The picture, parsed."""
    return ET.fromstring(preview_svg(made))  # noqa: S314 - our own text


def cases() -> list[Preview]:
    """Few nodes and many, short names and long, with memory and without."""
    sharded = {"strategy": "hsdp"}
    return [
        preview(1, 2),
        with_memory(preview(3, 8, name=LONG, distributed=sharded), memory(0, 23, peak=100, capacity=80)),
        with_memory(preview(40, 8, name=LONG, distributed=sharded), memory(0, 319, capacity=None)),
    ]


@pytest.mark.parametrize("number", range(3))
def test_no_text_leaves_the_picture(number: int) -> None:
    """Every text ends inside of the page, measured by rather too wide letters."""
    for text in drawn(cases()[number]).iter(f"{SVG}text"):
        said = "".join(text.itertext()) if text.find(f"{SVG}title") is None else text[0].tail or ""
        width = text_width(said, float(text.attrib["font-size"])) / 1.04
        x = float(text.attrib["x"])
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib.get("text-anchor", "start")]
        assert x >= shift * width, said
        assert x + (1 - shift) * width <= WIDTH, said


@pytest.mark.parametrize("number", range(3))
def test_every_shape_is_inside_the_picture(number: int) -> None:
    """Nothing is cut off at its edge."""
    root = drawn(cases()[number])
    height = float(root.attrib["height"])
    for rect in root.iter(f"{SVG}rect"):
        x, y = float(rect.attrib.get("x", 0)), float(rect.attrib.get("y", 0))
        assert x >= 0
        assert x + float(rect.attrib["width"]) <= WIDTH
        assert y + float(rect.attrib["height"]) <= height


def test_every_class_has_a_colour_by_day_and_by_night() -> None:
    """What is drawn is styled in both."""
    text = preview_svg(cases()[1])
    day, _, night = text.partition("@media (prefers-color-scheme: dark)")
    used = {name for names in re.findall(r'class="([^"]+)"', text) for name in names.split()}
    for name in used - {"bold", "rule"}:
        assert f".{name}{{fill:" in day, name
        assert f".{name}{{fill:" in night, name


def test_names_are_escaped() -> None:
    """A name is text, whatever stands in it."""
    made = preview(1, 1)
    made = dataclasses.replace(made, plan=dataclasses.replace(made.plan, name="<script>&"))
    assert escaped('<script>&"\x00') == "&lt;script&gt;&amp;&quot;\N{REPLACEMENT CHARACTER}"
    assert "<script>" not in preview_svg(made)
    assert "<script>&" in [text.text for text in drawn(made).iter(f"{SVG}text")]


def test_a_long_text_is_fitted() -> None:
    """Its ends stay, its middle goes."""
    short = fitted("node-" + "x" * 100 + "-17", BODY, 120)
    assert text_width(short, BODY) <= 120
    assert short.startswith("node-")
    assert short.endswith("-17")
    assert "…" in short


def test_a_sentence_is_wrapped() -> None:
    """No line is wider than there is room, and no word is lost."""
    sentence = "one two three four five six seven eight nine ten"
    lines = wrapped(sentence, BODY, 100)
    assert " ".join(lines) == sentence
    assert all(text_width(line, BODY) <= 100 for line in lines)


def test_a_number_keeps_its_unit() -> None:
    """No line ends between the two."""
    lines = wrapped("sends 87.8 MiB of it in 1.12 s, 5 times", BODY, 80)
    assert [line for line in lines if line.endswith(("87.8", "1.12"))] == []
    assert " ".join(lines) == "sends 87.8 MiB of it in 1.12 s, 5 times"


def test_long_names_of_nodes_can_be_told_apart() -> None:
    """On cards, whose whole names are shown by the pointer, and where many nodes are summed up."""
    few = drawn(preview(4, 8, name=LONG))
    names = {text[0].tail for text in few.iter(f"{SVG}text") if text.find(f"{SVG}title") is not None}
    assert len(names) == 4
    assert LONG.format(3) in {title.text for title in few.iter(f"{SVG}title")}
    many = ["".join(text.itertext()) for text in drawn(preview(40, 8, name=LONG)).iter(f"{SVG}text")]
    assert any("0000.rack-17" in text and "0039.rack-17" in text for text in many)


def test_a_magnified_bar_says_so() -> None:
    """Where the capacity is far beyond, and only there."""
    said = "bars are magnified: their full width is 1.0 GiB, and the capacity is far beyond"
    assert said in preview_svg(with_memory(preview(1, 2), memory(peak=1)))
    assert "magnified" not in preview_svg(with_memory(preview(1, 2), memory(peak=40)))
    assert "magnified" not in preview_svg(with_memory(preview(1, 2), memory(peak=1, capacity=None)))


def test_marks_are_explained() -> None:
    """The line below a bar, the capacity where it is drawn, and the colours of groups where there are two."""
    alone = preview_svg(with_memory(preview(1, 2), memory(peak=1)))
    assert "expected range of the peak" in alone
    assert "capacity of the device" not in alone
    assert "capacity of the device" in preview_svg(with_memory(preview(1, 2), memory(peak=40)))
    said = "colours alternate from one group to the next"
    assert said in preview_svg(preview(2, 8, distributed={"strategy": "hsdp"}))
    assert said not in preview_svg(preview(2, 8, distributed={"strategy": "fsdp"}))
    assert ", one square each: ranks 0 to 319" in preview_svg(preview(40, 8))


def test_warnings_stand_out() -> None:
    """Notes do not."""
    made = preview(2, 3, distributed={"strategy": "hsdp", "hsdp": {"shard": 2}})
    kinds = {text.text: text.attrib["class"] for text in drawn(made).iter(f"{SVG}text")}
    (warning,) = [kind for text, kind in kinds.items() if "lie on more than one node" in (text or "")]
    assert (warning, kinds[f"fingerprint {made.plan.fingerprint[:16]}"]) == ("tight", "dim")


def test_ranks_stand_where_they_are() -> None:
    """Of few nodes every rank has its number, of many every node its square."""
    few = drawn(preview(2, 4))
    numbers = [text.text for text in few.iter(f"{SVG}text") if (text.text or "").isdigit()]
    assert numbers == [str(rank) for rank in range(8)]
    titles = [title.text or "" for title in drawn(preview(128, 8)).iter(f"{SVG}title")]
    assert "n0127: ranks 1016 to 1023" in titles
