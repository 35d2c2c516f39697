"""What keeps a cold start short: values without `dataclasses`, and patterns compiled on first use."""
