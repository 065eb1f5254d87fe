"""What is asked, as a typed tree."""
