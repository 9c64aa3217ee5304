"""Checkpoints that trainers write: recognised by name and by each kind's own sign of completeness.

Nothing is unpickled. Standard library, Python 3.10: the agent uses it.
"""
