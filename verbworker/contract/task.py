"""Plain tasks: variables in, variables out, for processes that are not hollow. The path for pyzeebe users."""

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from logging import Logger, LoggerAdapter
from typing import Any, Protocol, get_type_hints

from verblint.names import OWN_JOBS
from verbworker.contract.verb import Mode, OnUnknown
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.job.job import PAYLOAD, PAYLOAD_HASH, Job

# Zeebe refuses commands above 4 MB; the rest of the command and its encoding need some of that.
_MOST_BYTES = 3 * 2**20
# Engines send all variables if none is named, so a task without parameters names one that no process has.
_NO_VARIABLE = "vw_none"
_MOST_TYPE = 255  # characters of a job type that metrics, tables and terminals can still show
_CATCH_ALL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class TaskCall:
    """What a plain task may know about its run."""

    task: str
    idempotency_key: str  # the same in every run of one job: pass it to external systems
    attempt: int
    deadline: datetime
    log: "Logger | LoggerAdapter[Logger]"
    headers: Mapping[str, str] = field(default_factory=dict)


_CALL: ContextVar[TaskCall | None] = ContextVar("verbworker_task_call", default=None)


def task_call() -> TaskCall:
    """Return the call of the plain task that this code runs in; for tasks whose signature pyzeebe fixes."""
    call = _CALL.get()
    if call is None:
        raise PermanentContract("task_call() works only while a plain task runs", code="NoTask")
    return call


@contextmanager
def running_task(call: TaskCall) -> Iterator[None]:
    """Make `call` the one that `task_call` returns while this block runs."""
    before = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(before)


@dataclass(frozen=True, slots=True)
class TaskDone:
    """The task is done; these variables are its permanent answer."""

    variables: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """An exception handler failed the job: one retry is spent, the next run begins after `delay` seconds."""

    message: str
    delay: float
    error: Exception | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskThrown:
    """An exception handler threw a BPMN error."""

    code: str
    message: str


TaskEnd = TaskDone | TaskFailed | TaskThrown


class Invoke(Protocol):
    """Calls an author's function by names, on a thread if it is not async."""

    def __call__(self, function: Callable[..., Any], arguments: dict[str, Any], /) -> Awaitable[Any]: ...


Run = Callable[[Job, TaskCall, Invoke], Awaitable[TaskEnd]]


@dataclass(frozen=True, slots=True)
class PlainTask:
    """A plain task: how its jobs are run, and how the runtime treats them. Its effects are always external."""

    name: str
    run: Run
    variables: tuple[str, ...]  # fetched from the engine; empty for all
    concurrency: int
    batch: int  # jobs per poll
    timeout: timedelta | None
    policy: str | None
    on_unknown: OnUnknown
    idempotency_window: timedelta
    max_runs: int
    sentence: str
    needs_threads: bool
    origin: str = "task"
    mode: Mode = Mode.EXTERNAL

    @property
    def variable_names(self) -> tuple[str, ...]:
        """Return the variables it names, for people; none if it takes all or none."""
        return tuple(name for name in self.variables if name != _NO_VARIABLE)


def plain_task(
    name: str,
    function: Callable[..., Any],
    *,
    variables: tuple[str, ...] | None,
    returns: str | None,
    **limits: Any,
) -> PlainTask:
    """Return a function as a plain task. Its parameters are variables, except one annotated with `TaskCall`.

    `limits` are the other fields of `PlainTask`.
    """
    named, call_name, takes_all = _parameters(name, function)

    async def run(job: Job, call: TaskCall, invoke: Invoke) -> TaskEnd:
        given = {known: value for known, value in job.variables.items() if takes_all or known in named}
        if variables is not None and takes_all:
            given = {known: value for known, value in given.items() if known in variables}
        if call_name is not None:
            given[call_name] = call
        require_variables(name, function, given)
        answer = await invoke(function, given)
        return TaskDone({returns: answer} if returns is not None else variables_in(name, answer))

    functools.update_wrapper(run, function)  # refusals name the place of the author's code
    fetched = variables if variables is not None else () if takes_all else tuple(named)
    return PlainTask(
        name=name,
        run=run,
        variables=fetched or (() if takes_all else (_NO_VARIABLE,)),
        **limits,
        sentence=first_line(function) or name,
        needs_threads=not inspect.iscoroutinefunction(function),
    )


def first_line(function: Callable[..., Any]) -> str:
    """Return the first line of a function's docstring; empty without one."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _parameters(name: str, function: Callable[..., Any]) -> tuple[list[str], str | None, bool]:
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError) as error:
        raise ContractInvalid(f"the type hints of the task {name} cannot be read: {error}") from error
    named: list[str] = []
    call_name: str | None = None
    takes_all = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ContractInvalid(f"the task {name} takes {parameter.name!r} without its name, but is called by names")
        if parameter.kind in _CATCH_ALL:
            takes_all = takes_all or parameter.kind is inspect.Parameter.VAR_KEYWORD
        elif hints.get(parameter.name) is TaskCall and call_name is None:
            call_name = parameter.name
        else:
            named.append(parameter.name)
    return named, call_name, takes_all


def require_variables(name: str, function: Callable[..., Any], given: Mapping[str, object]) -> None:
    """Raise `PermanentContract` for a variable that the task needs and the process does not have."""
    missing = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in _CATCH_ALL
        and parameter.name not in given
    ]
    if missing:
        raise PermanentContract(
            f"the process has no variable {missing[0]}, which the task {name} takes",
            code="VariableMissing",
            function=function,
        )


def variables_in(name: str, answer: object) -> Mapping[str, object]:
    """Return the variables that a task answered; None is no variables. Raises `PermanentContract` for anything else."""
    if answer is None:
        return {}
    if isinstance(answer, Mapping) and all(isinstance(key, str) for key in answer):
        return answer
    raise PermanentContract(
        f"{name} answered {type(answer).__name__}; a plain task returns a dict of variables or None",
        code="AnswerInvalid",
    )


def variables_bytes(name: str, variables: Mapping[str, object]) -> bytes:
    """Return a task's variables as the frame stores them; raises `PermanentContract` if the engine cannot have them."""
    for known in variables:
        if known in (PAYLOAD, PAYLOAD_HASH) or known.startswith("vw_"):
            raise PermanentContract(
                f"{name} answered the variable {known}, which belongs to the runtime", code="VariableReserved"
            )
    try:
        content = json.dumps(variables, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise PermanentContract(f"{name} answered variables that are not JSON", code="AnswerInvalid") from None
    if len(content) > _MOST_BYTES:
        raise PermanentContract(
            f"{name} answered {len(content)} bytes of variables; the engine takes {_MOST_BYTES}", code="AnswerTooLarge"
        )
    return content


def check_task(task: PlainTask) -> None:
    """Raise `ContractInvalid` unless the engine and the runtime can serve the task."""
    if not task.name or not task.name.isprintable() or len(task.name) > _MOST_TYPE:
        raise ContractInvalid(
            f"{task.name[:_MOST_TYPE]!r} is not a job type; write 1 to {_MOST_TYPE} visible characters"
        )
    if task.name.startswith(OWN_JOBS):
        raise ContractInvalid(f"{task.name} is reserved: the runtime's own job types begin with {OWN_JOBS}")
    if task.concurrency < 1 or task.max_runs < 1 or task.batch < 1:
        raise ContractInvalid(f"{task.name}: concurrency, batch and max_runs are at least 1")
    if task.timeout is not None and task.timeout < timedelta(milliseconds=1):
        raise ContractInvalid(f"{task.name}: the timeout is at least a millisecond")
    if task.on_unknown is OnUnknown.PROBE:
        raise ContractInvalid(f"{task.name}: a plain task has no probe; write on_unknown='rerun' or 'hold'")
