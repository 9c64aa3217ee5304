"""Why ranks make no progress: who is late, what each rank does, and one verdict for all of them."""
