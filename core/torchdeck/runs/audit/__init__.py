"""Prediction beside measurement: what a run was to need and use, and what it did."""
