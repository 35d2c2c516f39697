"""Tracing: chooses the tracer, and speaks OpenTelemetry if that is enabled. Nothing else may import OpenTelemetry."""
