"""The tasks of a pyzeebe router as plain tasks, run by pyzeebe's own wrapper: decorators, handlers, single values."""

import copy
import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

from pyzeebe import Job as PyzeebeJob
from pyzeebe import ZeebeTaskRouter
from pyzeebe.errors import BusinessError
from pyzeebe.job.job import JobController
from pyzeebe.task.exception_handler import ExceptionHandler
from pyzeebe.task.task import Task
from pyzeebe.task.task_builder import build_job_handler
from pyzeebe.task.task_config import TaskConfig
from pyzeebe.task.types import AsyncTaskDecorator
from pyzeebe.types import Variables

from verbworker.contract.task import (
    Invoke,
    PlainTask,
    TaskCall,
    TaskDone,
    TaskEnd,
    TaskFailed,
    TaskThrown,
    first_line,
    require_variables,
    variables_in,
)
from verbworker.contract.verb import OnUnknown
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.job.error_place import locate_error
from verbworker.job.job import Job

_WORKER = "verbworker"

_log = logging.getLogger(__name__)


class FrameController(JobController):
    """Keeps what a task or an exception handler decides, for its frame. As in the engine, the first answer counts."""

    def __init__(self, job: PyzeebeJob) -> None:
        self.job = job
        self.end: TaskEnd | None = None
        self.error: Exception | None = None

    async def set_running_after_decorators_status(self) -> None:
        """Do nothing: a frame has no such state."""

    async def set_success_status(self, variables: Variables | None = None) -> None:
        """Complete the job with these variables."""
        self.end = self.end or TaskDone(variables_in(self.job.type, variables))

    async def set_failure_status(
        self, message: str, retry_back_off_ms: int = 0, variables: Variables | None = None
    ) -> None:
        """Fail the job: one retry is spent."""
        self._refuse(variables)
        self.end = self.end or TaskFailed(message, retry_back_off_ms / 1000, self.error)

    async def set_error_status(self, message: str, error_code: str = "", variables: Variables | None = None) -> None:
        """Throw a BPMN error."""
        self._refuse(variables)
        self.end = self.end or TaskThrown(error_code, message)

    def _refuse(self, variables: Variables | None) -> None:
        if variables:
            raise PermanentContract(
                f"{self.job.type} fails its job with variables; only a completed job keeps variables here",
                code="VariablesOfFailure",
            )


def tasks_of(
    router: ZeebeTaskRouter, *, on_unknown: OnUnknown, idempotency_window: timedelta, max_runs: int
) -> Iterator[PlainTask]:
    """Yield every task of a router. Its own settings apply: variables, timeout, concurrency and batch."""
    if not isinstance(router, ZeebeTaskRouter):
        raise ContractInvalid(f"include_pyzeebe takes a ZeebeTaskRouter, not a {type(router).__name__}")
    for task in router.tasks:
        config = copy.copy(task.config)
        if config.variables_to_fetch is not None:
            config.variables_to_fetch = list(config.variables_to_fetch)  # an iterator would be read only once
        yield PlainTask(
            name=task.type,
            run=_run(task, config),
            # pyzeebe asks for all variables as well where a task names none: its decorators may read them.
            variables=tuple(config.variables_to_fetch or ()),
            concurrency=config.max_running_jobs,
            batch=config.max_jobs_to_activate,
            timeout=timedelta(milliseconds=config.timeout_ms),
            policy=None,
            on_unknown=on_unknown,
            idempotency_window=idempotency_window,
            max_runs=max_runs,
            sentence=first_line(task.original_function) or task.type,
            needs_threads=not inspect.iscoroutinefunction(task.original_function),
            origin="pyzeebe",
        )


def _run(task: Task, config: TaskConfig) -> Callable[[Job, TaskCall, Invoke], Any]:
    config.exception_handler = _keep_error(config.exception_handler)
    config.before = [_ignore_failure(decorator) for decorator in config.before]
    config.after = [_ignore_failure(decorator) for decorator in config.after]

    async def run(job: Job, call: TaskCall, invoke: Invoke) -> TaskEnd:
        given = _job(job, call)
        controller = FrameController(given)
        await build_job_handler(_through(invoke, task), config)(given, controller)
        if controller.end is not None:
            return controller.end
        # With a handler that decided nothing pyzeebe leaves the job to its timeout; here the exception decides.
        raise controller.error or RuntimeError(f"the exception handler of {task.type} set no status")

    functools.update_wrapper(run, task.original_function)  # refusals name the place of the author's code
    return run


def _keep_error(own: ExceptionHandler | None) -> ExceptionHandler:
    """Return a handler that keeps the exception, and asks the task's own one if it has any.

    pyzeebe's default handler would send the exception's text to the engine.
    """

    async def handle(error: Exception, job: PyzeebeJob, controller: JobController) -> None:
        assert isinstance(controller, FrameController), "the runtime made it"
        controller.error = error
        if own is not None:
            await own(error, job, controller)
        elif isinstance(error, BusinessError):
            await controller.set_error_status(str(error), error_code=error.error_code)

    return handle


def _ignore_failure(decorator: AsyncTaskDecorator) -> AsyncTaskDecorator:
    """Return a decorator whose failure is ignored, as in pyzeebe, whose log line would hold the exception's message."""

    async def run(job: PyzeebeJob) -> PyzeebeJob:
        try:
            return await decorator(job)
        except Exception as error:
            about = {"task": job.type, "job_key": job.key, "decorator": _name(decorator)}
            fields = {**about, **locate_error(error).fields()}
            _log.warning("decorator failed; the job goes on", exc_info=error, extra=fields)
            return job

    return run


def _name(decorator: Callable[..., Any]) -> str:
    return str(getattr(decorator, "__qualname__", type(decorator).__name__)).replace("<locals>.", "")


def _through(invoke: Invoke, task: Task) -> Callable[..., Any]:
    """Return the function as pyzeebe calls it, run by the runtime: on its threads, and awaited until it has ended."""
    function = task.original_function

    @functools.wraps(function)
    async def call(**arguments: Any) -> Any:
        require_variables(task.type, function, arguments)
        return await invoke(function, arguments)

    return call


def _job(job: Job, call: TaskCall) -> PyzeebeJob:
    return PyzeebeJob(
        key=job.key,
        type=job.type,
        process_instance_key=job.process_instance_key,
        bpmn_process_id=job.process_id,
        process_definition_version=job.process_version,
        process_definition_key=job.process_definition_key,
        element_id=job.element_id,
        element_instance_key=job.element_instance_key,
        custom_headers=dict(job.headers),
        worker=_WORKER,
        retries=job.retries,
        deadline=int(call.deadline.timestamp() * 1000),
        variables=cast(Variables, dict(job.variables)),
        tenant_id=job.tenant_id,
    )
