"""The harness's own exceptions."""


class Unavailable(Exception):
    """A real part is not on this machine; the message says in one sentence what to do."""


class Broken(Exception):
    """A real part is here and does not work: never a reason to skip."""
