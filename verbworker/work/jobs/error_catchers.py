"""Error codes for the engine: thrown if the deployed model catches them, otherwise an incident."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

from verbworker.engine.protocol import KeepsModels
from verbworker.errors import NotFound, PermanentBusiness
from verbworker.job.job import Job
from verbworker.job.outcome import Incident, Thrown
from verbworker.model.catches import Catches, catches_of, uncaught
from verbworker.retrying import DATABASE_OR_ENGINE, DEPLOYMENT
from verbworker.stores.deployments import Definition, Deployments

# `Deploy` records a definition within milliseconds of the engine's answer; a job of it may be even faster.
_DEPLOY_GRACE = timedelta(seconds=3)


class ErrorCatchers:
    """Knows which codes each deployed definition catches. A definition never changes, so it is read once."""

    def __init__(self, deployments: Deployments, engine: object, *, grace: timedelta = _DEPLOY_GRACE) -> None:
        self._deployments = deployments
        self._engine = engine
        self._grace = grace
        self._known: dict[int, Catches] = {}

    async def judge(self, job: Job, thrown: Thrown) -> Thrown | Incident:
        """Return `thrown` if the job's own definition catches its code, else an incident that explains why not.

        An uncaught error would end the job, and leave an incident that only the engine knows of.
        """
        step = (await self._catches(job)).get(job.element_id)
        if step is None:
            why = (
                f"whether the model catches {thrown.code} is unknown, because definition {job.process_definition_key}"
                " is not on record here; deploy it by verbworker deploy, then release the frame"
            )
        elif step.catches(thrown.code):
            return thrown
        else:
            why = uncaught(job.element_id, thrown.code, step)
        return Incident(PermanentBusiness.kind, thrown.code, f"{thrown.message}; {why}")

    async def judge_plain(self, job: Job, thrown: Thrown) -> Thrown | Incident:
        """Return what `judge` does, but `thrown` if the definition is not on record: others deploy such models too."""
        look_up = partial(self._look_up, Definition.of(job))
        try:
            step = (await DATABASE_OR_ENGINE.run(look_up)).get(job.element_id)
        except NotFound:
            return thrown
        if step is None or step.catches(thrown.code):
            return thrown
        why = uncaught(job.element_id, thrown.code, step)
        return Incident(PermanentBusiness.kind, thrown.code, f"{thrown.message}; {why}")

    async def _catches(self, job: Job) -> Catches:
        """Return what a job's definition catches; empty if unknown. Waits while the database is unavailable."""
        look_up = partial(self._look_up, Definition.of(job))

        async def wait_for_record() -> Catches:
            with suppress(NotFound):
                return await look_up()
            # Only now: the database may have been slow before, for the deployer as well.
            return await DEPLOYMENT.run(look_up, within=self._grace.total_seconds())

        try:
            return await DATABASE_OR_ENGINE.run(wait_for_record)
        except NotFound:
            return {}

    async def _look_up(self, definition: Definition) -> Catches:
        key = definition.key
        if key in self._known:
            return self._known[key]
        found = await self._deployments.catches(key)
        if found is None and isinstance(self._engine, KeepsModels):
            content = await self._engine.model(key)
            found = None if content is None else catches_of(content, definition.process_id)
        if found is None and await self._deployments.assume(definition):
            found = await self._deployments.catches(key)
        if found is None:
            raise NotFound(f"definition {key} is not on record")
        self._known[key] = found
        return found
