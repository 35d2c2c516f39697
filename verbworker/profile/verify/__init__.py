"""The extension profile at work: a process is scaffolded, compiled, generated and verified."""
