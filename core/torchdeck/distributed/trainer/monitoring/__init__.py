"""Reporting and monitoring of a training."""
