"""BPMN models at deployment: woven listeners, waits, caught errors, timers, start variables, element templates.

It reads models and deploys nothing.
"""
