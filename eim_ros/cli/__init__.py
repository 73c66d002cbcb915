"""The command line, `eim`."""
