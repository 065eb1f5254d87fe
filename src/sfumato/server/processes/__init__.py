"""A server takes connections, replies at ticks, and spawns the processes that share its work."""
