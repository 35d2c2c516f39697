"""An API key as the settings of a server name it."""

from typing import Annotated

from pydantic import BaseModel, Field

from verbworker.contract.message import Word
from verbworker.http.settings import STRICT


class ApiKey(BaseModel):
    """An API key, its holder and the holder's tenant; of the key itself only its SHA-256 is known here."""

    model_config = STRICT

    name: Word
    tenant: Word
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
