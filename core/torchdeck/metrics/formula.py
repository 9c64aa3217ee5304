"""Formulas over metrics: `train_loss - validation_loss`, `exp(loss)`, `"train/loss" / 2`.

The syntax is Python's, of which only numbers, names, + - * / ** %, and the functions below are allowed.
Nothing is executed: the tree is read node by node. A name that is no Python name is written in quotes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchdeck.contract.refusal import Refusal

Array = NDArray[np.float64]
PREFIX = "= "
"""Beginning of the name of a series that a formula gives."""
LONGEST = 300
"""Characters of a formula."""
_DEEPEST = 40
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Mod: np.mod,
    ast.Pow: np.float_power,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: np.positive, ast.USub: np.negative}
_ONE: Mapping[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
}
"""Functions of one value."""
_SEVERAL: Mapping[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}
"""Functions of two values or more."""
FUNCTIONS = (*_ONE, *_SEVERAL)


class FormulaError(Refusal):
    """A formula cannot be read; the message says where."""

    page = "window#plots"
    is_usage = True


class Formula:
    """A formula that was read.

    Attributes:
        text: as written.
        names: names of the metrics in it, in the order of their first use; at least one.
    """

    def __init__(self, text: str) -> None:
        """Read a formula.

        Raises:
            FormulaError: it is none; the message has the place from which on it is not understood.
        """
        self.text = text.strip()
        if not self.text or len(self.text) > LONGEST:
            raise FormulaError(f"a formula has 1 to {LONGEST} characters", fix="write one such as exp(loss)")
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            where = getattr(error, "offset", None)
            at = f" at character {where}" if where else ""
            raise FormulaError(
                f"the formula is not understood{at}", fix="write one such as exp(loss)"
            ) from error
        found: dict[str, None] = {}
        _check(self._tree, found, 0)
        if not found:
            raise FormulaError("the formula names no metric", fix="write one such as exp(loss)")
        self.names = tuple(found)

    def value(self, columns: Mapping[str, Array]) -> Array:
        """Return the values.

        Args:
            columns: name → values, shape (n,) each. What is not defined, as the logarithm of 0, becomes NaN
                or infinite.
        """
        with np.errstate(all="ignore"):
            found: Array = np.asarray(_value(self._tree, columns), np.float64)
        return found


def formula_of(name: str) -> Formula | None:
    """Return the formula of a series' name; None if it is a metric's name, or the formula is invalid."""
    if not name.startswith(PREFIX):
        return None
    try:
        return Formula(name.removeprefix(PREFIX))
    except FormulaError:
        return None


def _check(node: ast.expr, names: dict[str, None], depth: int) -> None:
    """Collect the names, and raise FormulaError at anything that is not allowed."""
    if depth > _DEEPEST:
        raise _refused(node, f"at most {_DEEPEST} operations within each other")
    match node:
        case ast.BinOp(op=op) if type(op) in _BINARY:
            _check(node.left, names, depth + 1)
            _check(node.right, names, depth + 1)
        case ast.UnaryOp(op=op) if type(op) in _UNARY:
            _check(node.operand, names, depth + 1)
        case ast.Call(func=ast.Name(id=function), args=given, keywords=[]):
            right = len(given) == 1 if function in _ONE else len(given) >= 2 and function in _SEVERAL
            if not right:
                raise _refused(
                    node, f"one value for {', '.join(_ONE)}, two or more for {', '.join(_SEVERAL)}"
                )
            for each in given:
                _check(each, names, depth + 1)
        case ast.Constant(value=bool()) | ast.Constant(value=complex()):
            raise _refused(node, "a number or the name of a metric")
        case ast.Constant(value=int() | float() as number):
            try:
                float(number)
            except OverflowError as error:
                raise _refused(node, "a number of at most 1.8e308") from error
        case _:
            names[_name(node)] = None


def _value(node: ast.expr, columns: Mapping[str, Array]) -> Any:
    match node:
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, columns), _value(node.right, columns))
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, columns))
        case ast.Call(func=ast.Name(id=function)):
            given = [_value(each, columns) for each in node.args]
            return _ONE[function](given[0]) if function in _ONE else reduce(_SEVERAL[function], given)
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case _:
            return columns[_name(node)]


def _name(node: ast.expr) -> str:
    """Return the metric that a node names: `loss`, `val.loss` or `"train/loss"`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_name(value)}.{name}"
        case ast.Constant(value=str() as name) if name:
            return name
        case _:
            raise _refused(node, "a number, the name of a metric, + - * / ** %, or a function")


def _refused(node: ast.expr, expected: str) -> FormulaError:
    at = node.col_offset + 1
    return FormulaError(f"the formula is not understood at character {at}", fix=f"expected {expected}")
