"""How the ranks share the work: one interface, one file a strategy."""
