"""The Nodes place: machines and what they do."""
