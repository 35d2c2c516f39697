"""Settings, wiring, services, health, logging, tracing and client of one process. Only `app` chooses an engine."""
