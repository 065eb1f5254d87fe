"""The shell reads statements at a prompt, keeps what was set, and completes what is typed."""
