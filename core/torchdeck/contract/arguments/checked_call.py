"""Checks the arguments of a public function before it runs: names, spellings and kinds of values."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from torchdeck.contract.arguments.errors import ArgumentError, shown, unknown_name
from torchdeck.contract.arguments.types import described, fits
from torchdeck.contract.refusal import Refusal

F = TypeVar("F", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)

_UNPACKED = re.compile(r"Unpack\[(\w+)\]")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def arguments(*, also: Mapping[str, str] | None = None, own_checks: bool = False) -> Callable[[F], F]:
    """Return a decorator that checks arguments and raises ArgumentError instead of Python's own errors.

    Keywords of a TypedDict (`**options: Unpack[Options]`) are checked like parameters.

    Args:
        also: another spelling of a parameter → its name; a call may have either.
        own_checks: the function checks values itself, with better messages. Kinds are compared only if it
            fails with another error than a Refusal.
    """

    def decorate(function: F) -> F:
        call = _Call(function, also or {})

        @functools.wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            if not call.names.issuperset(keywords):
                keywords = call.named(keywords)
            if not own_checks:
                call.check_kinds(call.bound(args, keywords))
            try:
                return function(*args, **keywords)
            except Refusal:
                raise
            except Exception:
                call.check_kinds(call.bound(args, keywords))
                raise

        return cast("F", checked)

    return decorate


def checked_class(kind: Kind) -> Kind:
    """Check the arguments of a dataclass, which checks values itself."""
    made: Any = kind
    made.__init__ = arguments(own_checks=True)(made.__init__)
    return kind


class _Call:
    """Parameters of one function."""

    def __init__(self, function: Callable[..., Any], also: Mapping[str, str]) -> None:
        self._function = function
        self._also = also
        name = function.__qualname__.removesuffix(".__init__")
        self._name = name.rpartition(".")[2] if name.count(".") > 1 else name

    def named(self, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keywords under the names of the parameters.

        Raises:
            ArgumentError: there is no such argument, or it is given under two names.
        """
        found = dict(keywords)
        for spelling, name in self._also.items():
            if spelling in found:
                if name in found:
                    raise ArgumentError(
                        f"{self._name} has both {name} and {spelling}, two names of one argument",
                        fix=f"leave out {spelling}",
                    )
                found[name] = found.pop(spelling)
        for name in found:
            if name not in self._known and not self._is_open:
                raise unknown_name(f"{self._name} has no argument", name, self._known, self._also)
        return found

    def bound(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameter or keyword → value.

        Raises:
            ArgumentError: an argument is missing, or there are too many.
        """
        try:
            return {**self._signature.bind(*args, **keywords).arguments, **keywords}
        except TypeError as error:
            raise self._not_bound(error, args, keywords) from None

    def check_kinds(self, values: Mapping[str, Any]) -> None:
        """Raise ArgumentError if a value does not fit its annotation."""
        for name, value in values.items():
            hint = self._hints.get(name, Any)
            if not fits(value, hint):
                raise ArgumentError(f"{name} is {shown(value)}", fix=f"expected {described(hint)}")

    def _not_bound(
        self, error: TypeError, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> ArgumentError:
        named = list(self._signature.parameters.values())
        positional = [each for each in named if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        given = {each.name for each in positional[: len(args)]} | set(keywords)
        missing = [
            each.name
            for each in named
            if each.kind in _NAMED and each.default is inspect.Parameter.empty and each.name not in given
        ]
        if missing and len(args) <= len(positional):
            return ArgumentError(f"{self._name} needs {', '.join(missing)}", fix=f"give {missing[0]}")
        takes = ", ".join(each.name for each in positional if each.name not in ("self", "cls"))
        return ArgumentError(
            f"{self._name} cannot be called so", error, f"its arguments by position are {takes or 'none'}"
        )

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._function)

    @functools.cached_property
    def _is_open(self) -> bool:
        """Whether it takes any keyword."""
        return any(
            each.kind is inspect.Parameter.VAR_KEYWORD and not _UNPACKED.search(str(each.annotation))
            for each in self._signature.parameters.values()
        )

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Keywords that need no look."""
        return frozenset(self._known)

    @functools.cached_property
    def _known(self) -> list[str]:
        """Names of all keywords, without other spellings."""
        own = [
            each.name
            for each in self._signature.parameters.values()
            if each.kind in _NAMED and each.name not in ("self", "cls")
        ]
        return [*own, *(name for name in self._options if name not in self._also)]

    @functools.cached_property
    def _options(self) -> dict[str, Any]:
        """Keywords of TypedDicts, with their annotations."""
        found: dict[str, Any] = {}
        for each in self._signature.parameters.values():
            unpacked = _UNPACKED.search(str(each.annotation))
            if unpacked:
                found |= typing.get_type_hints(self._globals[unpacked[1]])
        return found

    @functools.cached_property
    def _globals(self) -> dict[str, Any]:
        return vars(sys.modules[self._function.__module__])

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        """Annotations of parameters and keywords; those that cannot be resolved here are left out."""
        found = dict(self._options)
        for each in self._signature.parameters.values():
            if each.kind in _NAMED and each.annotation is not inspect.Parameter.empty:
                try:
                    found[each.name] = _resolved(each.annotation, self._globals)
                except NameError:  # imported for type checkers alone
                    continue
        return found


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    return eval(annotation, names) if isinstance(annotation, str) else annotation  # noqa: S307 - our own source
