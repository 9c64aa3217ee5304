"""Metrics, progress, and numbers read from what scripts print.

What is sent to nodes (writing, progress, reading of stdout) is standard library, Python 3.10; reader/ is not,
and needs numpy.
"""
