"""Shared parts of commands: options, output, progress, error messages and exit codes."""
