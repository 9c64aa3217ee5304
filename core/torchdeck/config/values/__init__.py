"""Values as people write them: names of hosts and nodes, ranges, sizes, spelling."""
