"""`verbworker consume`: take messages from a bus, a queue table or standard input."""

from datetime import timedelta
from typing import Annotated

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import run
from verbworker.app.signals import run_until_signal
from verbworker.cli.shared_options import LONGEST, Dsn, EngineId


def consume(
    place: Annotated[
        str, typer.Option("--from", help="stdin, postgres (the queue table), or your consumer as module:attribute.")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="End at the first envelope that is refused.")] = False,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Accept messages of this tenant only (default: of the tenant that each names)."),
    ] = None,
    ttl: Annotated[
        float, typer.Option("--ttl", min=1.0, max=LONGEST, help="Seconds that each message waits for its case.")
    ] = 3600.0,
    dsn: Dsn = None,
    engine_id: EngineId = None,
) -> None:
    """Take messages from a bus, a queue table or standard input. Each is acknowledged once it is stored.

    A refused envelope is a dead letter, and the next one follows; with --strict it exits 1 instead. While Postgres is
    away nothing is acknowledged, and nothing lost. The first SIGTERM or SIGINT stops after the message in hand; the
    second ends it immediately.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    settings.cluster()
    log.apply(settings)
    log.warn_of_unknown_settings()
    from verbworker.app.bus_process import SHIPPED, consume
    from verbworker.app.wiring import load_consumer

    consumer = None if place in SHIPPED else load_consumer(place)
    waits = timedelta(seconds=ttl)
    run(
        run_until_signal(
            lambda stop: consume(settings, place, consumer, stop, ttl=waits, only_tenant=tenant, is_strict=strict)
        )
    )
