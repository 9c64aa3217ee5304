"""Trainings that Torchdeck did not start: imported into the run list, or watched."""
