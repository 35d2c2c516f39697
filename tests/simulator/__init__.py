"""The worker's own code on virtual time, against a model of an engine that may do anything, by seed."""
