"""Run the checks of `verbworker verify` in a test, before a commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from verblint.report import render
from verblint.startup.value import replace as replaced
from verbworker.contract.registry import Registry
from verbworker.profile.verify.models import read_models
from verbworker.profile.verify.rules import RULES
from verbworker.profile.verify.sources import open_sources
from verbworker.profile.verify.verifier import verify


def assert_verified(models: Sequence[str], registry: Registry | None = None, *, profile: str = "") -> None:
    """Assert that models, contracts, policies, locks, generated modules and the registry's verbs agree.

    The registry may be that of one process: contracts of other models are compared only if it has them. A `profile`
    replaces the project's.
    """
    read = read_models(models)
    sources = open_sources(read)
    if profile:
        settings = replaced(sources.project.settings, profile=profile)
        sources = replace(sources, project=replaced(sources.project, settings=settings))
    verified = verify(read, sources)
    if registry is not None:
        verified = verified.with_coverage(registry, is_part=True)
    report = verified.report
    lines = [render(report, "concise", rules=RULES).strip(), *map(str, report.problems)]
    assert report.exit_code(sources.project.max_warnings) == 0, "verbworker verify would not pass:\n" + "\n".join(lines)


def compile_files(models: Sequence[str]) -> Mapping[str, bytes]:
    """Compile models in memory and return every generated file by its path, as `verbworker verify --write` writes it.

    A model with errors has none: `assert_verified` reports them.
    """
    read = read_models(models)
    return verify(read, open_sources(read)).compiled
