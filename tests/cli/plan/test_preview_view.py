"""The preview on a terminal, at any width, with and without UTF-8."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from support.values.previews import memory, preview, profile, with_memory
from torchdeck.cli.plan.terminal_views import print_preview, print_rank
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.known import Known
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.preview_json import document
from torchdeck.plan.preview.rank_preview import make_rank

LONG = "a-machine-with-a-name-that-goes-on-and-on-{:04d}.cluster.example.org"


def shown(made: Preview, width: int = 80, encoding: str = "utf-8") -> str:
    """What a terminal of so many columns would show."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    print_preview(made, Console(file=file, width=width, highlight=False))
    buffer = file.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(encoding)


def test_sizes_that_a_run_may_go_on_with_have_a_line_each() -> None:
    """With their arithmetic and whether they fit; of very many the largest and the smallest."""
    made = preview(1, 8, distributed={"nproc": "2:4"})
    text = shown(made, 100)
    assert "Smaller sizes" in text
    assert "3 ranks: global batch 8 × 2 × 3 = 48 samples" in text
    assert "2 ranks: global batch 8 × 2 × 2 = 32 samples" in text
    assert [size["global_batch"] for size in document(made)["smaller"]] == [48, 32]
    assert "Smaller sizes" not in shown(preview(1, 8))
    many = shown(preview(1, 32, distributed={"nproc": "1:32"}))
    assert "31 ranks: " in many
    assert "1 rank: " in many
    assert "⋮ and 23 more" in many


def full() -> Preview:
    """A preview with something in each section."""
    plan = build_batch_plan(np.arange(1, 201) % 60 + 1, token_budget=128)
    made = preview(
        16,
        8,
        name=LONG,
        batch_plan=plan,
        training={"epochs": 1, "batch_plan": "/bp", "scaling": "sqrt"},
        distributed={"strategy": "hsdp"},
    )
    return with_memory(made, memory(0, 126, peak=85, verdict="does not fit"), memory(127, 127, peak=70))


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Whatever the names: lines are broken or shortened by us, not by the terminal."""
    assert max(map(len, shown(full(), width).splitlines())) <= width


def test_without_utf8_all_is_ascii() -> None:
    """Bars, lines and signs have plain forms."""
    text = shown(full(), encoding="ascii")
    for words in ("x does not fit", "sqrt 128", "##", "ranks 0-126", "|", "fullest rank / mean"):
        assert words in text, words
    assert "\\" not in text


def test_the_verdict_is_on_top() -> None:
    """The most serious of all groups, with its numbers."""
    head = shown(full()).splitlines()[:4]
    assert head[1] == "128 ranks on 16 nodes, hsdp over nccl"
    assert head[2] == "✕ does not fit: 85.0 GiB of 80.0 GiB, 106 %"


def test_many_nodes_are_summed_up() -> None:
    """The first, how many more, the last."""
    text = shown(preview(128, 8))
    assert "and 124 more like it" in text
    assert "n0127  1016 1017" in text
    assert len(text.splitlines()) < 50


def test_devices_that_are_chosen_are_named() -> None:
    """Indices are said where they are not simply the first ones."""
    assert "2 × Tester 80GB (1, 3)" in shown(preview(1, 4, distributed={"devices": [1, 3]}))


def test_long_names_and_kinds_leave_room_for_ranks() -> None:
    """Names keep their numbers; what a node has stands below its ranks where there is no room beside them."""
    lines = shown(preview(2, 8, name=LONG, distributed={"devices": [7, 6, 5, 4, 3, 2, 1, 0]})).splitlines()
    assert lines[4].endswith("…0000…   0  1  2  3  4  5  6  7")
    assert lines[5].strip() == "8 × Tester 80GB (7, 6, 5, 4, 3, 2, 1, 0)"
    assert lines[6].endswith("…0001…   8  9 10 11 12 13 14 15")


def test_many_ranges_of_ranks_are_counted() -> None:
    """Of more than two the first is named."""
    group = dataclasses.replace(memory(), ranks=((0, 2), (4, 6), (8, 1000)))
    assert "999 ranks (0–2 …)" in shown(with_memory(preview(1, 2), group))


def test_groups_are_set_apart() -> None:
    """A line between ranks of two shard groups, and what it means."""
    text = shown(preview(1, 4, distributed={"strategy": "hsdp", "hsdp": {"shard": 2}}))
    assert "0  1│ 2  3" in text
    assert "sharded over 2 ranks each, in 2 groups that replicate" in text


def test_a_full_bar_has_its_capacity_marked() -> None:
    """Below it nothing of the bar, beyond it the part that is too much."""
    made = with_memory(preview(1, 2), memory(peak=160, verdict="does not fit"))
    (line,) = [line for line in shown(made).splitlines() if line.startswith("  ranks 0–1")]
    before, _, after = line.partition("│")
    assert before.endswith("▒")
    assert after.startswith("▒")


def test_every_term_has_a_sign_of_its_own() -> None:
    """The legend reads without colour."""
    text = shown(with_memory(preview(1, 2), memory()))
    for words in (
        "██ parameters 6.0 GiB",
        "▓▓ gradients 4.0 GiB",
        "▒▒ optimizer",
        "░░ activations",
        "·· other",
    ):
        assert words in text, words


def test_how_even_the_ranks_are() -> None:
    """Each rank's bar with its distance from the mean, and every balance."""
    text = shown(full())
    for words in (
        "fullest rank ÷ mean",
        "padding",
        "balance tokens:",
        "(chosen)",
        "least: rank",
        "most: rank",
    ):
        assert words in text, words


def test_a_rank_is_shown_whole() -> None:
    """Place, samples, tensors."""
    file = io.StringIO()
    print_rank(make_rank(preview(2, 2, distributed={"strategy": "fsdp"}), 3), Console(file=file, width=80))
    text = file.getvalue()
    for words in ("rank 3: cuda:1 of n0001", "shard 3 of 4", "step 0, microbatch 0 (8 samples): ", "none"):
        assert words in text, words


def test_ranks_that_differ_by_a_sample_of_thousands_are_one_bar() -> None:
    """Five bars that all say even would say no more."""
    made = preview(1, 16, training={"epochs": 20, "microbatch": 3})
    assert made.data is not None
    assert made.data.samples.min() < made.data.samples.max()
    many = preview(2, 8, known=Known(profile(samples=99_999)), training={"epochs": 1, "microbatch": 8})
    assert many.data is not None
    assert many.data.samples.min() < many.data.samples.max()
    assert "least: rank" in shown(made)
    assert "fullest of 16 ranks" in shown(many)
    assert "least: rank" not in shown(many)


def test_bars_of_a_section_have_one_scale() -> None:
    """Half as much is half as long, however long the numbers beside are."""
    groups = memory(0, 7, peak=800, capacity=900), memory(8, 9, peak=400, capacity=None)
    lines = [
        line for line in shown(with_memory(preview(1, 2), *groups), 120).splitlines() if "  ranks " in line
    ]
    whole, half = (sum(line.count(sign) for sign in "█▓▒░·") for line in lines)
    assert abs(whole - 2 * half) <= 2
    plan = build_batch_plan([1000, 500], token_budget=1000, buckets=[500, 1000])
    made = preview(1, 2, batch_plan=plan, training={"epochs": 1, "batch_plan": "/bp"})
    lines = [line for line in shown(made).splitlines() if line.startswith("  rank ")]
    half, whole = sorted(8 * line.count("█") + 4 * line.count("▌") for line in lines)
    assert whole == 2 * half
    assert all(", 1 sample " in line for line in lines)
