"""Tables of jobs: frames, leases, steps, deliveries without a frame, job histories and compensation records."""
