"""Tables of the embedded engine: tokens with their jobs and timers, and message subscriptions."""
