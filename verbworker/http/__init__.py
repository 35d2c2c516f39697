"""HTTP for every part: requests to other services, and what health, ingress and console serve with.

Knows no case, no engine and no database.
"""
