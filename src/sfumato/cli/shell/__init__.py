"""The interactive shell: line input, completion, settings and commands."""
