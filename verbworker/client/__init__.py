"""The client: start, read, decide, send and cancel from any program. It knows no surface and runs no worker."""
