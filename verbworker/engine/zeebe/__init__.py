"""The Zeebe engine: Camunda 8's gRPC gateway behind the `Engine` protocol."""
