"""Batch plans: built from lengths, a data set, or the data of a run; here, or in a process of their own."""

from __future__ import annotations

RECIPE = "byte-finetune"
"""The built-in recipe whose samples have lengths of their own."""
