"""The command line: thin commands over the engine, each module imported only when it is asked for."""
