"""The doctor: checks everything a worker depends on, and reports the state and the fix."""
