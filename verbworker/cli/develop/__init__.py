"""Commands for developers: init, scaffold, dev, demo, lint, verify and verbs."""
