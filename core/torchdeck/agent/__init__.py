"""What runs on a node beside the training: agent, gang, holder, rank holder.

Standard library only, Python 3.10.
"""
