"""The ranks together: rendezvous, process group, agreement, small exchanges."""
