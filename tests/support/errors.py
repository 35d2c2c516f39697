"""The harness's own exceptions."""


class Unavailable(Exception):
    """A real part cannot run on this machine; the message is the reason, in one sentence."""
