"""A command beside a broker of its own: `python -m tests.support.with_zeebe verbworker demo --engine zeebe`."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType

from tests.support.errors import Broken, Unavailable
from tests.support.progress import progress
from tests.support.zeebe import Broker
from tests.support.zeebe_home import VERSION


def main(command: Sequence[str]) -> int:
    """The command's exit code; 2 when there can be no broker here."""
    signal.signal(signal.SIGTERM, _leave)
    broker = Broker(controlled_clock=False)
    try:
        with ExitStack() as stack:
            with progress(f"starting Zeebe {VERSION}; the first time on a machine Maven fetches it"):
                stack.enter_context(broker)
            return _run(command, broker.address)
    except (Unavailable, Broken) as reason:
        print(reason, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(command: Sequence[str], address: str) -> int:
    process = subprocess.Popen(command, env={**os.environ, "ZEEBE_ADDRESS": address})

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    # Who wants the end wants the command's; the broker goes when it has ended.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    return process.wait()


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
