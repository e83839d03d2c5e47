"""The command line: one file a command, no logic of its own; the folders are the groups that `--help` shows."""
