"""What all engines share about sources: their identity, and how columns are found, cleaned and inspected."""
