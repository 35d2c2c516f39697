"""Task profiles: what the profile of a job's model requires of the job, and whether the job still fits it."""

from verbworker.errors import Failure, PermanentContract
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import Job
from verbworker.payload.boundary import JobVariables
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.profile.task_profile import HEADER, NO_TERMS, TaskProfile
from verbworker.stores.task_profiles import TaskProfileStore


class TaskProfiles:
    """Looks up task profiles for the executor. Only jobs of models with a profile cost anything here."""

    def __init__(self, book: TaskProfileStore) -> None:
        self._book = book

    async def of(self, job: Job) -> TaskProfile:
        """Return the terms of a job's task; empty terms for a task without a profile."""
        terms = await self._book.of(job)
        return NO_TERMS if terms is None else terms.task(job.element_id)

    async def key(self, job: Job, luggage: JobVariables) -> str | None:
        """Return the idempotency key from the task's template; None if there is no template or it cannot be filled.

        A frame needs a key before anything may fail. `check` reports why none could be made.
        """
        try:
            return await self._key(job, luggage)
        except Failure:
            return None

    async def require(self, job: Job) -> TaskProfile:
        """Return the terms of a job that is about to run; raises `PermanentContract` if they are unknown here."""
        if HEADER in job.headers and await self._book.of(job) is None:
            raise PermanentContract(
                "the model was deployed with terms that this database does not know", code="TermsUnknown"
            )
        return await self.of(job)

    async def check(self, job: Job, luggage: JobVariables, instance: InstanceFacts) -> None:
        """Check that a job with a checked payload fits the terms it names; raises `PermanentContract`."""
        terms = await self._book.of(job)
        if terms is None:
            return
        await self._key(job, luggage)
        if instance.definition_key in (None, job.process_definition_key):
            return
        began = await self._book.definition_of(instance.definition_key)
        if began != terms.definition_id:
            raise PermanentContract(
                f"the instance began under the definition {began or 'without a profile'}, and this job is of"
                f" {terms.definition_id}",
                code="AmeideDefinitionMismatch",
            )

    async def _key(self, job: Job, luggage: JobVariables) -> str | None:
        task = await self.of(job)
        if task.key is None:
            return None
        visit = await self._book.visit(job) if task.counts_steps else 1
        return task.idempotency_key(job, _state(luggage), visit=visit)


def _state(luggage: JobVariables) -> dict[str, object]:
    """Return the case as the job brought it: the same in every run of the job, regardless of other branches' writes."""
    envelope = parse(luggage.content, limit=HARD_LIMIT)
    data = envelope.get("data") if isinstance(envelope, dict) else None
    return data if isinstance(data, dict) else {}
