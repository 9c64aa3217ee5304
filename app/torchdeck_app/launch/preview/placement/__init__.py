"""Placement of ranks, as a grid."""
