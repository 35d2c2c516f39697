"""What people read: the runbook's events, its progress sentences and its export format.

It knows no BPMN and no database.
"""
