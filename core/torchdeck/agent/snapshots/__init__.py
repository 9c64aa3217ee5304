"""Each run's own copy of the user's code, on the node it runs on: contents kept by hash, shared by runs."""
