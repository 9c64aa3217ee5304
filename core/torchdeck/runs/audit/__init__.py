"""Prediction compared with measurement: what a run was expected to need and use, and what it did."""
