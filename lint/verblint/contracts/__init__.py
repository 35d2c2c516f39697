"""Contracts as YAML: strict parsing of verb, policy and template files."""
