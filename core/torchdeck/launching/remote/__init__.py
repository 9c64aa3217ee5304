"""Controller's end of the links to nodes: starts their agents, mirrors files, forwards requests."""
