"""GPUs of all nodes: the grid, and the page of one."""
