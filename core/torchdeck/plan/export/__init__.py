"""Exports of a plan as scripts and jobs that start it without Torchdeck."""
