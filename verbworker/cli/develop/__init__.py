"""Commands for developers: init, scaffold, dev, demo, lint, verify, verbs and migrate."""
