"""A server's connections, its clock of replies and the processes it spawns."""
