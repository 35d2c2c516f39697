"""The command line: thin commands and one `asyncio.run`. Exit codes: 0 yes, 1 no, 2 could not run."""
