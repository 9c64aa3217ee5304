"""Values as users write them: names of hosts and nodes, ranges, sizes, spelling."""
