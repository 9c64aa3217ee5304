"""SSH connections to nodes: targets, host keys, login, running commands.

No module here imports paramiko before it is used: that takes 0.2 s.
"""
