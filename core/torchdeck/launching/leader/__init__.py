"""The leading node as the controller sees it: lost, left behind, fenced."""
