"""How jobs reach a worker: streams, polls, slots, timeouts and leases. It does not know what a job does."""
