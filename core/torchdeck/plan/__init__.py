"""Planning: from a config and an inventory to a LaunchPlan. Pure: no processes, sockets or clocks."""
