"""The command line: thin commands, one `asyncio.run`, exit 0 yes, 1 no, 2 could not run."""
