"""Contract of both sides: run directory, launch plan, checkpoint manifests, metric segments.

Standard library only, Python 3.10: agents on nodes, ranks and the desktop share it. It imports nothing
else of Torchdeck.
"""
