"""A plan says what is asked, as a typed tree."""
