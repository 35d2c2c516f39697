"""One process, put together: settings, wiring, services, health, logging, tracing and the client.

It alone chooses an engine.
"""
