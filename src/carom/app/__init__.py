"""The command, and run files."""
