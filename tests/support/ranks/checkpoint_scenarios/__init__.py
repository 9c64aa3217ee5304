"""What the ranks do in the tests of saving and loading; run by `checkpoint_ranks`."""
