"""The rules, one module for each family of like rules; a rule, its fixtures and its page share one name."""
