"""Text of run files: editing values in place, merging and comparing."""
