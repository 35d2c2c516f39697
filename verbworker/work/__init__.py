"""Moves cases along: jobs, listeners, gates, messages, starts and upkeep.

It knows engines only by `engine.protocol`, and nothing of settings, commands, HTTP or the console.
"""
