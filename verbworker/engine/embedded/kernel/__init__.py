"""The embedded engine's kernel: definitions, instance state and the step that applies one command.

Pure: no database, no clock.
"""
