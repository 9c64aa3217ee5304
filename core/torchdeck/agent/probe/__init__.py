"""Facts of a node, found on the node: standard library, nothing written, torch imported only on request.

It is sent over standard input and run from memory, so that probing a node leaves nothing on it.
"""
