"""Durable verbs for Camunda 8."""
