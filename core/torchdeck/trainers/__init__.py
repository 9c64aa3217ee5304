"""Knowledge of the programs that people train with: their output, their files, their checkpoints.

Standard library, Python 3.10: the agent and the ranks use it.
"""
