"""Commands share their flags, how they show progress and tables, and how they end."""
