"""Memory use of each device."""
