"""The loop of background services: polls, retries after outages, reports health. It depends on no service."""
