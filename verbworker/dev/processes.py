"""Child processes that end with us: signalled first, killed in the end."""

import asyncio
import signal
from asyncio.subprocess import Process


async def end(
    process: Process, number: int = signal.SIGTERM, *, last: int = signal.SIGKILL, patience: float = 10
) -> int:
    """Ask a process to end, insist if it does not, and return its exit code."""
    for insisting in (number, last, signal.SIGKILL):
        if process.returncode is not None:
            break
        process.send_signal(insisting)
        try:
            async with asyncio.timeout(patience):
                await process.wait()
        except TimeoutError:
            continue
    return await process.wait()
