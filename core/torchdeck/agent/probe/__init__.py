"""What a node has, found out on the node: standard library, nothing written, torch imported only if asked.

It is sent over standard input and run from memory, so that looking at a node leaves nothing on it.
"""
