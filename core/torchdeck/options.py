"""Declaration of an option of run.toml: its default, range, unit and help in one call."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A table of run.toml: frozen, no unknown keys, no conversion of text to numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


def option(
    description: str,
    *,
    default: Any,
    label: str | None = None,
    unit: str | None = None,
    group: str | None = None,
    visible_if: dict[str, list[str]] | None = None,
    right: str | None = None,
    path: bool = False,
    **constraints: Any,
) -> Any:
    """Declare a field with everything that documentation, error messages and the form need.

    Args:
        description: one sentence for users.
        default: the value if the key is absent.
        label: name for people, in sentence case. Default: the key's own words.
        unit: what a number counts or measures: "s", "steps", "samples", "bytes".
        group: heading under which a form shows it; None is the section's own.
        visible_if: other keys, by full path, and the values for which this one has an effect.
        right: a description of valid values, if type and range are not enough.
        path: a relative path in it is relative to the folder of the file that contains it.
        constraints: pydantic's ge, gt, le, lt, min_length, max_length, pattern, strict.
    """
    facts: dict[str, Any] = {"unit": unit, "group": group, "visible_if": visible_if, "right": right}
    extra = {name: value for name, value in facts.items() if value is not None}
    if path:
        extra["path"] = True
    return Field(default, title=label, description=description, json_schema_extra=extra, **constraints)


def table(of: type[Section], description: str, *, visible_if: dict[str, list[str]] | None = None) -> Any:
    """Declare a nested table, all defaults if it is absent."""
    extra: dict[str, Any] = {} if visible_if is None else {"visible_if": visible_if}
    return Field(default_factory=of, description=description, json_schema_extra=extra)
