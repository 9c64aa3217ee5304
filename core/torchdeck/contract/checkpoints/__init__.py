"""Checkpoints on disk: manifests, listing, verification, and which one a start resumes from."""
