"""The installed `verbworker` command, in forks of one process that has it loaded.

`python -m tests.faults.command_server PORT`. A run gives hundreds of commands, and starting Python costs more than most
of them. Each connection carries one command and gets one answer; a connection that ends without an answer is a command
that was killed.
"""

import contextlib
import importlib.metadata
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable

LOOPBACK = "127.0.0.1"
_LONGEST_COMMAND = 60
_PIPE = 65536


def main() -> None:
    """Listen until the process is killed."""
    command = _installed_command()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    hear, tell = os.pipe()
    os.set_blocking(hear, False)
    with socket.create_server((LOOPBACK, int(sys.argv[1])), backlog=256) as server:
        while True:
            connection, _ = server.accept()
            _load(hear)
            if os.fork() == 0:
                server.close()
                _run(connection, command, tell)
            connection.close()


def _load(hear: int) -> None:
    """Import what earlier commands had to import, so that the next ones find it loaded."""
    try:
        names = os.read(hear, _PIPE).decode().split()
    except BlockingIOError:
        return
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _installed_command() -> Callable[[], object]:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="verbworker")
    command: Callable[[], object] = entry.load()
    importlib.import_module("tests.faults.app")
    return command


def _run(connection: socket.socket, command: Callable[[], object], tell: int) -> None:
    """Be one command: take its words, run it, answer with its exit code and output, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile("rb") as asked:
        wanted = json.loads(asked.readline())
    # The kernel kills what takes too long, and what the plan wants to die on the way.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, wanted.get("killed_after") or _LONGEST_COMMAND)
    known = set(sys.modules)
    out, err = os.memfd_create("out"), os.memfd_create("err")
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv = ["verbworker", *wanted["words"]]
    code = 0
    try:
        command()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    answer = {"code": code, "out": _text(out), "err": _text(err)}
    connection.sendall(json.dumps(answer).encode() + b"\n")
    news = " ".join([*(set(sys.modules) - known), ""]).encode()
    if 1 < len(news) < _PIPE:
        os.write(tell, news)
    os._exit(0)


def _text(descriptor: int) -> str:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    return os.pread(descriptor, size, 0).decode(errors="replace")


if __name__ == "__main__":
    main()
