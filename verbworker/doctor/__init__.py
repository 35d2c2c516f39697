"""The doctor: looks at everything a worker stands on, and says of each thing how it is and what to do."""
