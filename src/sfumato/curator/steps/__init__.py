"""Some proposals are series of steps: each is a complete release, and is paid from one tab."""
