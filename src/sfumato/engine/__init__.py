"""Where rows live: sources opened under lock and key, and the statements generated for them."""
