"""Files by which ranks and agents find out why a run makes no progress. Standard library, Python 3.10."""
