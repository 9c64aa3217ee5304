"""Problems of the run file, as a list with links to their location."""
