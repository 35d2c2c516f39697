"""Findings and reports: what was found, what was suppressed, and how it is rendered."""
