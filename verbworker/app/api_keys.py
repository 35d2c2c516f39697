"""An API key as the settings of a server name it."""

from typing import Annotated

from pydantic import BaseModel, Field

from verblint.contracts.syntax import ROLE
from verbworker.contract.message import Tenant, Word
from verbworker.http.settings import STRICT

Role = Annotated[str, Field(pattern=f"^(?:{ROLE.expression})$")]
"""The name of a role."""


class ApiKey(BaseModel):
    """An API key, its holder and the holder's tenant; of the key itself only its SHA-256 is known here.

    Without `roles` none are declared, and the holder may do everything.
    """

    model_config = STRICT

    name: Word
    tenant: Tenant
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    roles: frozenset[Role] | None = None
