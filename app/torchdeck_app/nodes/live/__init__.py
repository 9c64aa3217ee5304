"""Live state of the inventory's nodes, monitored while shown."""
