"""The controller's end of the links to nodes: starts their agents, mirrors files, hands over requests."""
