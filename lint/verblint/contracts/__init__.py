"""Contracts: verb and policy files and templates, parsed and checked once for the linter and the runtime."""
