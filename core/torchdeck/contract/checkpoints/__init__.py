"""Checkpoints on disk: manifests, listing, verification, and the choice of the one to resume from."""
