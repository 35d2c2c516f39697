"""Tenants: what each has used of its quotas, and when claims serve them in turn. It knows no tenant by name."""
