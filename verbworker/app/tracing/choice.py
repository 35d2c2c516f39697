"""Choose the tracer of a process: OpenTelemetry's if the settings enable it, otherwise none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from verbworker.app.settings import Settings
from verbworker.errors import CannotRun
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database

# The engine that hands out the jobs, by its setting; OpenTelemetry leaves the names of other systems to us.
_SYSTEMS = {"zeebe": "zeebe", "embedded": "verbworker"}


@asynccontextmanager
async def open_tracer(settings: Settings, database: Database) -> AsyncIterator[Tracer]:
    """Open the tracer of a process; what it recorded is sent before the block ends."""
    if not settings.otel:
        yield UNTRACED
        return
    try:
        from verbworker.app.tracing.open_telemetry import CaseTraces, open_providers
    except ModuleNotFoundError as error:
        raise CannotRun("OpenTelemetry is on, but not installed; run: pip install 'verbworker[otel]'") from error
    traces = CaseTraces(Runbook(database).traceparent)
    async with open_providers(settings.worker_name) as providers:
        yield providers.tracer(traces, system=_SYSTEMS[settings.engine])
