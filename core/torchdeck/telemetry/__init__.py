"""Metrics writer, and parser of the numbers that scripts print.

Standard library, Python 3.10: this runs in ranks and agents. `torchdeck.metrics` reads what they write.
"""
