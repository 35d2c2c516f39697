"""BPMN that runs: weaving listeners in, waits, caught errors, timers, start variables and element templates.

It reads models and deploys nothing.
"""
