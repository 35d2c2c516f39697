"""Fields of REST v2 that only later versions know: leases (8.10) and business ids (8.9).

REST refuses a request with a field it does not know, so each is written only for a version that has it. Over gRPC the
same fields are written by number, in `wire.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

Version = tuple[int, int, int]

LEASES_SINCE: Final[Version] = (8, 10, 0)
BUSINESS_IDS_SINCE: Final[Version] = (8, 9, 0)


def ask_with_lease(body: Mapping[str, Any], *, version: Version | None, leases: bool) -> dict[str, Any]:
    """Return the body of `/jobs/activation`, with a request for leases if they are on and the version has them."""
    is_known = version is not None and version >= LEASES_SINCE
    return {**body, "withLease": True} if leases and is_known else dict(body)


def answer_with_lease(body: Mapping[str, Any], lease_token: str | None) -> dict[str, Any]:
    """Return the body of a completion, failure, error or PATCH of a job, with the token of its delivery.

    Beside `changeset`, not inside. A token came from this cluster, so it knows the field.
    """
    return dict(body) if lease_token is None else {**body, "leaseToken": lease_token}


def read_lease(job: Mapping[str, Any]) -> str | None:
    """Return the token of an activated job; None if it was not leased."""
    token = job.get("leaseToken")
    return token if isinstance(token, str) and token else None


def start_with_business_id(
    body: Mapping[str, Any], business_id: str | None, *, version: Version | None
) -> dict[str, Any]:
    """Return the body of `/process-instances`, with a business id if the version has them."""
    is_known = version is not None and version >= BUSINESS_IDS_SINCE
    return {**body, "businessId": business_id} if business_id is not None and is_known else dict(body)
