"""Task profiles: what the profile of a job's model requires of the job, and whether the job still fits it."""

from dataclasses import dataclass

from verbworker.errors import Failure, PermanentContract
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import Job
from verbworker.payload.boundary import JobVariables
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.profile.task_profile import HEADER, NO_TASK_PROFILE, TaskProfile
from verbworker.stores.task_profiles import TaskProfileStore


@dataclass(frozen=True, slots=True)
class JobProfile:
    """The profile of one job, read once. A job of a model without one has `NO_TASK_PROFILE` and no definition."""

    task_profile: TaskProfile = NO_TASK_PROFILE
    definition_id: str | None = None
    key: str | None = None  # from the task's template; None leaves the key to the runtime
    key_error: Failure | None = None  # a frame needs a key before anything may fail, so this is raised later
    is_unknown: bool = False

    def check_known(self) -> None:
        """Raise `PermanentContract` if the model was deployed with a profile that is not on record."""
        if self.is_unknown:
            raise PermanentContract(
                "the model was deployed with a profile that this database does not have", code="TermsUnknown"
            )


class TaskProfiles:
    """Looks up the profiles of jobs for the executor. Only jobs of models with a profile cost anything here."""

    def __init__(self, store: TaskProfileStore) -> None:
        self._store = store

    async def read(self, job: Job, reserved: JobVariables) -> JobProfile:
        """Return the profile of a job, with the idempotency key that its template makes."""
        process = await self._store.of(job)
        if process is None:
            return JobProfile(is_unknown=HEADER in job.headers)
        task_profile = process.task(job.element_id)
        if task_profile.key is None:
            return JobProfile(task_profile, process.definition_id)
        visit = await self._store.visit(job) if task_profile.counts_steps else 1
        try:
            key = task_profile.idempotency_key(job, _state(reserved), visit=visit)
        except Failure as error:
            return JobProfile(task_profile, process.definition_id, key_error=error)
        return JobProfile(task_profile, process.definition_id, key)

    async def check(self, job: Job, profile: JobProfile, instance: InstanceFacts) -> None:
        """Check that a job with a checked payload fits its profile; raises `PermanentContract`."""
        if profile.key_error is not None:
            raise profile.key_error
        if profile.definition_id is None or instance.definition_key in (None, job.process_definition_key):
            return
        began = await self._store.definition_of(instance.definition_key)
        if began != profile.definition_id:
            raise PermanentContract(
                f"the instance was started under the definition {began or 'without a profile'}, and this job is of"
                f" {profile.definition_id}",
                code="AmeideDefinitionMismatch",
            )


def _state(reserved: JobVariables) -> dict[str, object]:
    """Return the case as the job brought it: the same in every run of the job, regardless of other branches' writes."""
    envelope = parse(reserved.content, limit=HARD_LIMIT)
    data = envelope.get("data") if isinstance(envelope, dict) else None
    return data if isinstance(data, dict) else {}
