"""Moves a job along: push, run, pop, return."""
