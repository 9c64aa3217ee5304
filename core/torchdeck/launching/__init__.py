"""From a plan to a run: launcher, controller, transports, preflight."""
