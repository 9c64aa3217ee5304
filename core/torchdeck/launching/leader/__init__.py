"""The leader node as the controller sees it: lost, detached, fenced."""
