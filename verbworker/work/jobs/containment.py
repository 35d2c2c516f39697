"""Containment: what a verb does to the event loop, to tasks or to the process affects its own job only."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from verbworker.errors import TransientExternal
from verbworker.job.current_verb import performed_verb

_log = logging.getLogger(__name__)

_OWN_TASK: ContextVar["asyncio.Task[Any] | None"] = ContextVar("verbworker_own_task", default=None)


class GuardedTask(asyncio.Task[Any]):
    """A task that a verb can cancel only if it is the verb's own, or one that it made."""

    is_verbs = False
    outside_cancels = 0  # requests that did not come from a verb

    def cancel(self, msg: Any | None = None) -> bool:
        """Request cancellation; a verb's request for a task of the worker is refused and logged."""
        verb = performed_verb()
        if verb is None:
            self.outside_cancels += 1
        elif not self.is_verbs and self is not _OWN_TASK.get():
            _log.warning("a verb may not cancel tasks of the worker", extra={"verb": verb, "task": self.get_name()})
            return False
        return super().cancel(msg)


def contain_verbs(loop: asyncio.AbstractEventLoop) -> None:
    """Keep verbs from ending the process: by an exit in a task of theirs, by cancelling ours, by stopping the loop."""
    if loop.get_task_factory() is _make_task:
        return
    loop.set_task_factory(_make_task)
    stop = loop.stop

    def stop_unless_verb() -> None:
        if performed_verb() is not None:
            raise TransientExternal("the verb stopped the worker's event loop, which is refused", code="LoopStopped")
        stop()

    loop.stop = stop_unless_verb  # type: ignore[method-assign]  # the loop calls its own stop by this name too
    run_in_executor = loop.run_in_executor

    def run_on_thread(executor: Any, function: Callable[..., Any], *args: Any) -> Any:
        if performed_verb() is not None:
            return run_in_executor(executor, contain_thread, function, *args)
        return run_in_executor(executor, function, *args)

    loop.run_in_executor = run_on_thread  # type: ignore[method-assign, assignment]  # also for asyncio.to_thread


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any] | Generator[Any, None, Any], /, **options: Any
) -> asyncio.Task[Any]:
    if performed_verb() is None or not isinstance(work, Coroutine):
        return GuardedTask(work, loop=loop, **options)
    task = GuardedTask(_contain(work), loop=loop, **options)
    task.is_verbs = True
    return task


async def contain_run(work: Coroutine[Any, Any, object]) -> object:
    """Await a verb's function. If it cancels the task it runs in, that is its failure and ends no more than its run."""
    task = asyncio.current_task()
    if not isinstance(task, GuardedTask):
        return await _contain(work)
    before, outside = task.cancelling(), task.outside_cancels
    own = _OWN_TASK.set(task)
    try:
        answer = await _contain(work)
    except BaseException as error:
        if not await _take_back(task, before, outside):
            raise
        raise TransientExternal("the verb cancelled itself", code="Cancelled") from error
    finally:
        _OWN_TASK.reset(own)
    if await _take_back(task, before, outside):
        raise TransientExternal("the verb cancelled itself", code="Cancelled")
    return answer


async def _take_back(task: GuardedTask, before: int, outside: int) -> bool:
    """Undo cancel requests that only the verb made; return whether there were any."""
    if task.cancelling() <= before or task.outside_cancels > outside:
        return False
    while task.cancelling() > before:
        task.uncancel()
    try:
        await asyncio.sleep(0)  # before Python 3.13 a request that was taken back is delivered all the same
    except asyncio.CancelledError:
        if task.outside_cancels > outside:
            raise
    return True


def contain_thread(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a part of a verb on a thread. A future may hold no other error than an `Exception`.

    Its awaiter would wait forever for StopIteration; GeneratorExit would close the awaiting coroutines one by one, past
    everything that contains the verb, and end the worker.
    """
    try:
        return function(*args, **named)
    except StopIteration as error:
        raise RuntimeError("the verb raised StopIteration") from error
    except Exception:
        raise
    except BaseException as error:
        raise _as_failure(error) from error


async def contain_job(work: Coroutine[Any, Any, None], verb: str) -> None:
    """Await a whole job. What a future threw past its containment costs this run, not the worker.

    The frame stays as it is: its lease ends, and it is taken over like that of a worker that died.
    """
    try:
        await work
    except (GeneratorExit, RuntimeError) as error:
        is_closed_inside = isinstance(error, GeneratorExit) or str(error) == "coroutine ignored GeneratorExit"
        if not is_closed_inside or not _is_running():
            raise
        _log.error("job broke off; it will be redelivered", extra={"verb": verb, "error": "GeneratorExit"})


async def _contain(work: Coroutine[Any, Any, object]) -> object:
    """Await a part of a verb; what would end the process is raised as `TransientExternal`."""
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if not _is_running():
            raise  # the loop is gone, and this coroutine is being torn down
        raise _as_failure(error) from error


def _as_failure(error: BaseException) -> TransientExternal:
    name = type(error).__name__
    return TransientExternal(f"the verb raised {name}, which ends a process", code=name)


def _is_running() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def verb_of_callback(trace: TracebackType | None) -> str | None:
    """Return the verb whose callback raised an error out of the event loop, or None."""
    while trace is not None:
        handle = trace.tb_frame.f_locals.get("self")
        if isinstance(handle, asyncio.Handle):
            # The only trace of who scheduled it: callbacks run in the context of their maker.
            verb: str | None = getattr(handle, "_context").run(performed_verb)  # noqa: B009  # not in its type
            return verb
        trace = trace.tb_next
    return None
