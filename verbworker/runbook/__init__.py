"""What people read: the runbook's events, its progress sentences and its export format.

Independent of BPMN and database.
"""
