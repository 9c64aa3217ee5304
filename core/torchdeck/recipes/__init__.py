"""Models and data sets that run out of the box, and the loader of a user's own recipe file."""
