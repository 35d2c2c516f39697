"""Known faults of engine versions that operators must know about, derived from the version number."""

import re
from dataclasses import dataclass

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_KEEPS_TIMEOUTS = (8, 6, 13)  # the first version with the fix
_RELATED_FAULTS_END = (8, 8, 0)
_HAS_SEARCH = (8, 8, 0)  # the first version with POST /v2/jobs/search
# The high bits of a Zeebe key hold its partition; the rest counts within the partition.
_KEY_BITS = 51


@dataclass(frozen=True, slots=True)
class EngineFault:
    """A fault of an engine version and its remedy; `is_certain` if it was observed with this version."""

    words: str
    fix: str
    is_certain: bool


def version_number(version: str) -> tuple[int, int, int] | None:
    """Return the three numbers of an engine's version; None for the embedded engine and for what is no version."""
    found = _VERSION.match(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def lost_timeouts(version: str) -> EngineFault | None:
    """Return the fault if this version loses job timeouts: such a job stays locked until the broker restarts."""
    number = version_number(version)
    if number is None or number >= _RELATED_FAULTS_END:
        return None
    if number < _KEEPS_TIMEOUTS:
        return EngineFault(
            f"Zeebe {version} loses job timeouts, timers and backoffs under load (camunda #29735), so a job whose"
            " worker died may stay locked",
            "upgrade to 8.6.13 or newer; until then restart the broker when cases stall",
            is_certain=True,
        )
    if number < (8, 7, 0):
        return None
    return EngineFault(
        f"Zeebe {version} may lose job timeouts in rare cases (camunda #61289, #61297)",
        "restart the partition's leader if a case stalls",
        is_certain=False,
    )


def stall_remedy(version: str, instance_key: int) -> str:
    """Describe how to free a job that the engine activated and does not hand out again."""
    number, partition = version_number(version), instance_key >> _KEY_BITS
    restart = f"restart the broker that leads partition {partition}"
    if number is None:
        return "look for the job in the engine"
    if number < _KEEPS_TIMEOUTS:
        return f"{restart}: it then hands its jobs out again; upgrade to 8.6.13 or newer, which keeps timeouts"
    if number < _HAS_SEARCH:
        return f"{restart}: it then hands its jobs out again"
    return (
        f"search for the jobs of the instance {instance_key} (POST /v2/jobs/search) and fail the one that is activated,"
        f" with unchanged retries; or {restart}"
    )


def overdue_remedy(version: str, instance_key: int) -> str:
    """Describe how to make the engine check its timers and backoffs again."""
    if version_number(version) is None:
        return "check that a worker runs: it moves the embedded engine's clock"
    return f"restart the broker that leads partition {instance_key >> _KEY_BITS}: it then checks every due time again"


def lost_remedy(version: str) -> str:
    """Describe what to do about an instance that the engine has under no known key."""
    end = "if that does not help, cancel it and start it again: verbworker runbook cancel"
    if version_number(version) is None:
        return f"check that a worker serves its jobs; {end}"
    return f"restart the brokers one by one, so that each hands out again what it has; {end}"
