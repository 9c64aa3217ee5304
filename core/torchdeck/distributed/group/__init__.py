"""The ranks as a group: rendezvous, process group, agreement, small exchanges."""
