"""Zeebe: the gRPC gateway of Camunda 8, behind the `Engine` protocol."""
