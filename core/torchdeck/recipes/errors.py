"""The error a person can act on: their recipe, data or settings need a change."""

from __future__ import annotations


class RecipeError(Exception):
    """The recipe, its data or its settings cannot be trained; the message says what to change."""


class RecipeImportError(RecipeError):
    """The recipe file raised while it was imported; `__cause__` is what it raised, from its own line on."""
