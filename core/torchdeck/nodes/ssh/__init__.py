"""Connections to nodes by SSH: targets, host keys, logging in, running commands.

Nothing here imports paramiko before it is used: that takes 0.2 s.
"""
