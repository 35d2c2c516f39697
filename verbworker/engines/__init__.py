"""Engines speak to a process engine; what they speak is in the README beside this file."""
