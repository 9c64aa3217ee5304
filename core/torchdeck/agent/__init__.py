"""What runs on a node beside the training: agent, gang, shim, rank shim.

Standard library only, Python 3.10.
"""
