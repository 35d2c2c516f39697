"""Long attacks by seed: `make security ARGS=--fuzz`."""
