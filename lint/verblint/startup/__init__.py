"""Fast startup: value classes without `dataclasses`, and patterns compiled on first use."""
