"""All engines share this of a source: which file it is, how its columns are found, cleaned and looked into."""
