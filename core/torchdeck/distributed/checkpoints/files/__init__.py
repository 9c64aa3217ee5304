"""The files of a checkpoint, written and read without trusting them."""
