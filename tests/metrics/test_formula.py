"""Formulas over metrics: what is read, what is refused, and the series they give."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.metrics import opened, segment_path, write_columns, write_rows
from torchdeck.metrics import RunMetrics
from torchdeck.metrics.derived import DerivedMetrics
from torchdeck.metrics.formula import LONGEST, PREFIX, Formula, FormulaError, formula_of
from torchdeck.metrics.window import window_of
from torchdeck.trainers.metric_roles import Roles

A, B = np.array([1.0, 2.0, 4.0]), np.array([3.0, math.nan, 0.0])


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("a - b", ("a", "b"), [-2.0, math.nan, 4.0]),
        ("-a ** 2 / 2 + 1", ("a",), [0.5, -1.0, -7.0]),
        ("exp(log(a))", ("a",), [1.0, 2.0, 4.0]),
        ("max(a, 2, sqrt(a))", ("a",), [2.0, 2.0, 4.0]),
        ("log(b)", ("b",), [math.log(3), math.nan, -math.inf]),
        ("9 ** 9 ** 9 * a", ("a",), [math.inf, math.inf, math.inf]),
        ('"val/x" % 3 + v.y', ("val/x", "v.y"), [1.0, 2.0, 1.0]),
    ],
)
def test_values(text: str, names: tuple[str, ...], values: list[float]) -> None:
    formula = Formula(text)
    assert formula.names == names
    columns = {"a": A, "b": B, "val/x": A, "v.y": np.zeros(3)}
    np.testing.assert_allclose(np.broadcast_to(formula.value(columns), (3,)), values)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "1 + 2",
            "a +",
            "a b",
            "(a",
            "a if b else c",
            "[a]",
            "a[0]",
            "lambda: a",
            "a < b",
            "not a",
        ),
        *("open('x')", "a.b()", "__import__('os')", "exp(a, b)", "max(a)", "exp(x=a)", "exp(*a)", "f'{a}'"),
        *("a @ b", "a // b", "~a", "True + a", "1j * a", "a := 1", "a\nb", "''", "x" * (LONGEST + 1)),
        *("-" * 200 + "a", "(" * 140 + "-a" + ")" * 140 + "x"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula(text)
    assert formula_of(f"{PREFIX}{text}") is None


@given(st.text(alphabet="ab01.+-*/()%\"' ,explogmaxin_\\\n[]{}:=<>", max_size=60))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = Formula(text)
    except FormulaError:
        return
    value = formula.value(dict.fromkeys(formula.names, A))
    assert value.shape in ((3,), ())


def derived(metrics: RunMetrics) -> DerivedMetrics:
    return DerivedMetrics(metrics, Roles)


def test_rows_of_the_steps_that_all_metrics_have(tmp_path: Path) -> None:
    """Of each rank that logs them, and the last row of a step that was logged twice."""
    for rank in (0, 1):
        write_rows(tmp_path, [(step, {"train/loss": float(step)}) for step in range(1, 7)], rank=rank)
    write_rows(
        tmp_path,
        [(2, {"val": 10.0}), (4, {"val": 20.0}), (4, {"val": 30.0}), (9, {"val": 1.0})],
        source="trainer",
    )
    found = derived(opened(tmp_path))
    name = f"{PREFIX}val - loss"
    assert found.ranks(name) == [0]
    series = found.series(name, 0)
    assert series.steps.tolist() == [2, 4]
    assert series.values.tolist() == [8.0, 26.0]
    latest = found.latest(name, 0)
    assert latest is not None
    assert (latest.step, latest.value) == (4, 26.0)
    assert found.ranks(f"{PREFIX}exp(loss)") == [0, 1]
    assert len(found.series(f"{PREFIX}exp(loss)", 1)) == 6
    assert found.missing(Formula("gone + loss")) == ("gone",)
    assert found.ranks(f"{PREFIX}gone + loss") == []
    assert found.latest(f"{PREFIX}gone + loss", 0) is None


def test_a_repeated_step_counts_once_in_the_effective_series(tmp_path: Path) -> None:
    write_rows(tmp_path, [(1, {"loss": 1.0, "x": 1.0}), (2, {"loss": 2.0, "x": 1.0})])
    write_rows(tmp_path, [(2, {"loss": 5.0, "x": 1.0})], attempt=2)
    found = derived(opened(tmp_path))
    name = f"{PREFIX}loss + x"
    assert found.series(name, 0).values.tolist() == [2.0, 3.0, 6.0]
    assert found.series(name, 0).attempts.tolist() == [1, 1, 2]


@pytest.mark.parametrize("axis", ["step", "time"])
@pytest.mark.parametrize("log", [False, True])
def test_a_series_in_memory_has_the_window_of_its_rows(tmp_path: Path, axis: str, log: bool) -> None:
    """Also where a later attempt went back, so that x does not ascend."""
    random = np.random.default_rng(0)
    for attempt, first in ((1, 1), (2, 300)):
        values = np.where(random.random(700) < 0.1, np.nan, random.normal(size=700))
        steps = np.arange(first, first + 700)
        path = segment_path(tmp_path, attempt=attempt)
        write_columns(path, {"loss": values}, steps=steps, times=1e9 + 5e3 * attempt + steps)
    metrics = opened(tmp_path)
    low, high = (20.0, 900.0) if axis == "step" else (1e9 + 5.1e3, 1e9 + 10.9e3)
    asked = metrics.window("loss", 0, low, high, 50, axis=axis, log=log)
    found = window_of(metrics.series("loss", 0), low, high, 50, axis=axis, log=log)
    for one, other in zip(vars(asked).values(), vars(found).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_number_that_is_too_large_is_refused_when_it_is_read() -> None:
    """Not when plots compute it."""
    with pytest.raises(FormulaError, match="at character 8"):
        Formula(f"loss + 0x{'F' * 280}")
