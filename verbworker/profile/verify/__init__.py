"""Scaffold, compile, generate and verify processes with the extension profile."""
