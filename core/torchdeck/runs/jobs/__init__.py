"""Runs that an exported script started as jobs of Slurm."""
