"""The agents of several nodes as one gang: the leader decides, followers carry out. Standard library only.

A run on one node uses nothing of this, and has no socket.
"""
