"""Processes on a node next to the training: agent, gang, shim, rank shim.

Standard library only, Python 3.10.
"""
