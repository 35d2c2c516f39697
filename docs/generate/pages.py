"""Every generated file of the documentation by its path: reference pages, included pages, pictures and schemas."""

import json
from collections.abc import Mapping
from pathlib import Path

from docs.generate import commands, contract, http_api, metrics, python_api, rules, settings
from docs.generate.drawing import draw
from docs.generate.included import INCLUDED, included_page
from verblint.contracts.json_schema import SCHEMAS
from verbworker.api.server import describe

MODELS = Path(__file__).parents[1] / "tutorial" / "models"


def generated_files() -> Mapping[str, str]:
    """Return the text of every generated file."""
    schemas = {f"schemas/{name}": json.dumps(make(), indent=2) + "\n" for name, make in SCHEMAS.items()}
    return {
        "reference/contract.md": contract.contract_page(),
        "reference/policies.md": contract.policy_page(),
        "reference/settings.md": settings.page(),
        "reference/commands.md": commands.page(),
        "reference/http.md": http_api.page(),
        "reference/python.md": python_api.page(),
        "reference/metrics.md": metrics.page(),
        "reference/rules.md": rules.page(),
        **{page: included_page(page) for page in INCLUDED},
        **{f"tutorial/{model.stem}.svg": draw(model) for model in sorted(MODELS.glob("*.bpmn"))},
        "schemas/openapi.json": json.dumps(describe(), indent=2) + "\n",
        **schemas,
    }
