"""Policies: how long a verb may take, how often it is tried, and the delay between attempts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from verblint.contracts.strict_yaml import Path as Steps
from verbworker.contract import contract_file
from verbworker.contract.contract_file import ContractText, Like

TEN_YEARS = 10 * 366 * 86_400.0

Seconds = Annotated[float, Field(gt=0, le=TEN_YEARS)]
ErrorType = Annotated[str, Like(r"[A-Za-z_][A-Za-z0-9_.]*", "the name of an exception")]
PolicyName = Annotated[str, Like(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "a policy's name, like standard")]


class RetryPolicy(ContractText):
    """How often a verb is tried, and how the delays grow."""

    maximum_attempts: int = Field(ge=1, le=1_000_000)
    initial_interval_seconds: Seconds
    maximum_interval_seconds: Seconds
    backoff_coefficient: float = Field(ge=1.0, le=1_000)
    non_retryable_error_types: tuple[ErrorType, ...] = ()


class Policy(ContractText):
    """The limits a verb runs under, as named in `policies.yaml`."""

    name: PolicyName
    schedule_to_close_timeout_seconds: Seconds
    start_to_close_timeout_seconds: Seconds
    retry: RetryPolicy

    def delay(self, attempt: int, jitter: float) -> float:
        """Return the delay in seconds after attempt `attempt` (from 1) failed; `jitter` from 0 to 1 spreads it.

        Half of it is fixed: with all of it left to chance, some retries would not wait at all.
        """
        retry = self.retry
        try:
            grown = retry.initial_interval_seconds * retry.backoff_coefficient ** (attempt - 1)
        except OverflowError:
            grown = retry.maximum_interval_seconds
        return min(grown, retry.maximum_interval_seconds) * (0.5 + 0.5 * jitter)


DEFAULT_POLICY = Policy(
    name="default",
    schedule_to_close_timeout_seconds=86_400,
    start_to_close_timeout_seconds=60,
    retry=RetryPolicy(
        maximum_attempts=3,  # the engine's default for a task that sets no retries
        initial_interval_seconds=1,
        maximum_interval_seconds=60,
        backoff_coefficient=2,
    ),
)
"""The policy where neither workflow nor verb names one."""


class PolicyFile(ContractText):
    """A `policies.yaml`."""

    version: Literal[1]
    policies: tuple[Policy, ...]

    @field_validator("version", mode="before")
    @classmethod
    def _is_a_number(cls, version: object) -> object:
        if version is True:  # Python treats True as equal to 1
            raise ValueError("must be 1")
        return version


def load_policies(file: Path) -> Mapping[str, Policy]:
    """Return the policies of a file by name; raise `ContractInvalid` with file, line and field of every problem."""
    document, faults = contract_file.read(file)
    if document is None:
        raise contract_file.invalid(faults)
    read, faults = contract_file.validate(PolicyFile, document)
    if read is not None:
        faults = [contract_file.fault(document, ("policies", *steps), words) for steps, words in _misfits(read)]
    if read is None or faults:
        raise contract_file.invalid(faults)
    return {policy.name: policy for policy in read.policies}


def _misfits(read: PolicyFile) -> Iterator[tuple[Steps, str]]:
    names: set[str] = set()
    for index, policy in enumerate(read.policies):
        if policy.name in names:
            yield (index, "name"), f"the policy {policy.name} is declared twice"
        names.add(policy.name)
        if policy.retry.maximum_interval_seconds < policy.retry.initial_interval_seconds:
            yield (index, "retry", "maximum_interval_seconds"), "must not be less than initial_interval_seconds"
