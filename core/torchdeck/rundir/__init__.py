"""The run directory's files: names, atomic writes, journals, and who a process is.

Standard library only, Python 3.10: the agent on a node and the engine on the desktop share this room.
"""
