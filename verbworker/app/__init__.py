"""Settings, wiring, services, health, logging, tracing and output of one process. Only `app` chooses an engine."""
