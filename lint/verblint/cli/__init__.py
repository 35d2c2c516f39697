"""The command line of verblint."""
