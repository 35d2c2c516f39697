"""Policies: how long a verb may take, how often it is tried, and the delay between attempts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from verblint.contracts.contract_files import ContractError, read_policies
from verblint.contracts.fields import MAX_ATTEMPTS, MAX_COEFFICIENT, TEN_YEARS
from verblint.contracts.syntax import ERROR_TYPE, POLICY_NAME
from verbworker.errors import ContractInvalid

Seconds = Annotated[float, Field(gt=0, le=TEN_YEARS)]
ErrorType = Annotated[str, Field(pattern=f"^{ERROR_TYPE.expression}$")]
_SHAPE = ConfigDict(strict=True, extra="forbid", frozen=True, from_attributes=True)


class RetryPolicy(BaseModel):
    """How often a verb is tried, and how the delays grow."""

    model_config = _SHAPE

    maximum_attempts: int = Field(ge=1, le=MAX_ATTEMPTS)
    initial_interval_seconds: Seconds
    maximum_interval_seconds: Seconds
    backoff_coefficient: float = Field(ge=1.0, le=MAX_COEFFICIENT)
    non_retryable_error_types: tuple[ErrorType, ...] = ()


class Policy(BaseModel):
    """The limits a verb runs under, as named in `policies.yaml`."""

    model_config = _SHAPE

    name: str = Field(pattern=f"^{POLICY_NAME.expression}$")
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


def load_policies(file: Path) -> Mapping[str, Policy]:
    """Return the policies of a file by name; raise `ContractInvalid` with file, line and field of every problem."""
    try:
        return {name: Policy.model_validate(read) for name, read in read_policies([file]).items()}
    except ContractError as error:
        raise ContractInvalid(str(error)) from None
