"""Stories that every engine must tell alike; `test_scenarios.py` plays them all."""
