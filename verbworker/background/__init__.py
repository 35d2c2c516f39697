"""The skeleton of background services: one loop that polls, waits out outages and reports health.

It knows no service.
"""
