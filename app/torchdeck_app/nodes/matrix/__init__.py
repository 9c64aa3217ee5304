"""Matrix of the connections between nodes, with latency and bandwidth."""
