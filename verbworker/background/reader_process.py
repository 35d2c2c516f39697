"""The other end of `BodyReader`: reads what it is sent, call by call, until its parent closes the pipe or is gone.

A function arrives by its name and is imported here, so what bodies are read by must be cheap to import.
"""

import os
import pickle
import resource
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import BinaryIO, Final

from verbworker.errors import BodyTooLarge

LENGTH: Final = 8
"""Bytes before each call and each answer, which say how long it is."""

_BELOW_OTHERS: Final = 10  # of `nice`: small requests come first where there are few processors
_MOST_MEMORY: Final = 1024 * 1024 * 1024  # addresses, not pages: an interpreter alone has 200 MB of them
_READY_FOR: Final = "verbworker.contract.message"


def main(deadline_s: int) -> None:
    """Answer each call; one that lasts far longer than its caller waits ends the process, even if nobody is left."""
    # The parent ends it by closing the pipe; a signal to the whole group must not cut off a body that is being read.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray `print` would garble an answer
    import_module(_READY_FOR)
    os.nice(_BELOW_OTHERS)
    with suppress(ValueError, OSError):  # a system without this limit
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    while (call := _receive(calls)) is not None:
        signal.alarm(2 * deadline_s)
        answer = _answer(call)
        del call
        signal.alarm(0)
        answers.write(len(answer).to_bytes(LENGTH, "big"))
        answers.write(answer)
        answers.flush()


def _receive(calls: BinaryIO) -> bytes | None:
    size = int.from_bytes(calls.read(LENGTH), "big")
    call = calls.read(size)
    return call if size and len(call) == size else None


def _answer(call: bytes) -> bytes:
    """Return the value or the error of a call, which is raised where it was made."""
    try:
        function, args, kwargs = pickle.loads(call)  # noqa: S301  # our parent wrote it
        return pickle.dumps((function(*args, **kwargs), None), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        error: Exception = BodyTooLarge("the body needs more memory to be read than one body may have")
    except Exception as raised:  # whatever it is, the caller is to see it
        error = raised
    return pickle.dumps((None, error), pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
