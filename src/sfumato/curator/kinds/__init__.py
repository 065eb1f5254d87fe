"""Each module here is one kind of release: its spec, what proposes it, and its ``KIND``."""
