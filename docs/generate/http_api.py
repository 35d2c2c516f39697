"""The page of HTTP: the probes of a worker, and every operation of the API from its OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from docs.generate.markdown import code, sentence, table
from verbworker.api.server import describe

PROBES = (
    ("GET", "/live", "200 while the event loop runs. A database or an engine that is away changes nothing."),
    ("GET", "/ready", "200 when database and engine answer and every service works; else 503 and why."),
    ("GET", "/metrics", "The [metrics](metrics.md)."),
)


def page() -> str:
    """Return the page of HTTP."""
    document = describe()
    return (
        "# HTTP\n\n"
        "## A worker\n\nOn port 8090.\n\n"
        + table(("method", "path", "answer"), ((code(verb), code(path), words) for verb, path, words in PROBES))
        + "## The API\n\n"
        + f"{sentence(document['info']['description'])} `verbworker api serve` serves it on port 8091, with"
        " the [OpenAPI document](../schemas/openapi.json) at `/openapi.json`; `verbworker api schema` prints the same."
        " How it authenticates and refuses: [The HTTP API](../how-to/http-api.md).\n\n" + "".join(_operations(document))
    )


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            words = sentence(operation.get("description") or operation.get("summary", ""))
            yield f"### {method.upper()} {path}\n\n{words}\n\n"
            rows = [
                (
                    code(one["name"]),
                    one["in"],
                    "yes" if one.get("required") else "",
                    sentence(one.get("description", "")),
                )
                for one in operation.get("parameters", [])
            ]
            yield table(("parameter", "in", "required", "meaning"), rows) if rows else ""
            answers = ((code(status), sentence(answer["description"])) for status, answer in _answers(operation))
            yield table(("answer", "meaning"), answers)


def _parameter(one: dict[str, Any]) -> tuple[str, str, str, str]:
    return code(one["name"]), one["in"], "yes" if one.get("required") else "", sentence(one.get("description", ""))


def _answers(operation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(operation["responses"].items())
