"""As `verblint.startup.streams`, for commands that must not wait until the linter is loaded."""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

UNWRITABLE = 2  # the command could not do what it was asked to
CLOSED_PIPE = 141  # what shells report for a process that SIGPIPE ended
_BUG = 3
_STANDARD_OUTPUT = 1
_STANDARD_ERROR = 2


class OutputLost(OSError):
    """The output cannot be written; the message is shown to the user.

    It has no error number: argparse, click and rich end the process in their own way when they see the one of a closed
    pipe.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output cannot be written: {cause.strerror or cause}")
        self.is_closed_pipe = isinstance(cause, BrokenPipeError)


class _WatchedFile(FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise OutputLost(error) from None


def guard_output() -> None:
    """Let standard output and standard error raise `OutputLost`; `finish_output` turns it into an exit code.

    A process that is started with its output closed has none in Python, and the next file or socket that it opens
    would get the output's number.
    """
    if sys.stdout is None:
        # Cannot be written, and fails only for commands that print something.
        _open_as(_STANDARD_OUTPUT, os.O_RDONLY)
        sys.stdout = _guarded_text(_STANDARD_OUTPUT)
    else:
        sys.stdout = _guard(sys.stdout)
    if sys.stderr is None:
        _open_as(_STANDARD_ERROR, os.O_WRONLY)
        sys.stderr = _guarded_text(_STANDARD_ERROR, "backslashreplace")
    else:
        sys.stderr = _guard(sys.stderr)


def finish_output(program: str, code: int, failure: OutputLost | None = None) -> int:
    """Write what is still buffered and return the exit code: `code`, unless the output could not be written.

    A bug stays one. A closed pipe is quiet: its reader has what it wanted.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            failure = _flush(stream) or failure
    if failure is None or code == _BUG:
        return code
    if failure.is_closed_pipe:
        return CLOSED_PIPE
    try:
        sys.stderr.write(f"{program}: {failure}\n")
    except OutputLost:
        _flush(sys.stderr)
    return UNWRITABLE


def _guard(stream: Any) -> Any:
    """Return the stream with a guard below it; a stream without a file stays as it is."""
    try:
        number = stream.fileno()
    except (OSError, AttributeError):
        return stream
    stream.flush()
    is_unbuffered = isinstance(stream.buffer, FileIO)
    file = _WatchedFile(number, "w", closefd=False)
    return TextIOWrapper(
        file if is_unbuffered else BufferedWriter(file),  # as Python itself does
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=is_unbuffered,
    )


def _guarded_text(number: int, errors: str = "strict") -> Any:
    return TextIOWrapper(BufferedWriter(_WatchedFile(number, "w", closefd=False)), "utf-8", errors, line_buffering=True)


def _open_as(number: int, mode: int) -> None:
    opened = os.open(os.devnull, mode)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def _flush(stream: Any) -> OutputLost | None:
    """Write what is buffered; if that fails drop it, so that Python does not fail again at its end."""
    try:
        stream.flush()
    except OutputLost as error:
        _open_as(stream.fileno(), os.O_WRONLY)
        stream.flush()
        return error
    return None
