"""One job's decisions: the frame's states, the outcome of a run, and which errors lead to which.

Pure; stores and engines act on what is decided here.
"""
