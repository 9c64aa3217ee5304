"""Callbacks added to trainers of other projects inside a rank: steps, metrics, phases, stop, resume.

`startup/sitecustomize.py` is on the module path of a script's ranks. It installs an `ImportHook`, which adds
the callbacks once the program has imported a trainer. Nothing here raises into the program: see
`Report.guarded`.
Standard library, Python 3.10; a trainer's own modules arrive as arguments.
"""
