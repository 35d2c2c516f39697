"""Fixture models: BPMN files below tests/lint, each inspected under the settings its first comment names.

The comment reads `<!-- verblint: engine=8.10 contracts=none -->`. Left out, the defaults hold, with the contracts of
tests/lint/contracts. A trap also names the errors it must be met with: `expect=HB208,HB015`, or `expect=none`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import compile as pattern

from verblint.contracts.contract import Contracts
from verblint.contracts.contract_files import read_contracts
from verblint.linter import inspect
from verblint.report import Finding, Severity
from verblint.rule import Rule
from verblint.rules.index import rules_of
from verblint.settings import Settings

FOLDER = Path(__file__).parents[1] / "lint"

_PROCESS = pattern(rb'"(?:kyc-open-case|claim-settle)"')
_NOTE = pattern(rb"<!-- verblint:([^>]*) -->")


@dataclass(frozen=True, slots=True)
class FixtureModel:
    """One model and what it is inspected with."""

    path: Path
    settings: Settings
    contracts: Contracts
    expected: frozenset[str]

    @property
    def name(self) -> str:
        """The path below tests/lint."""
        return str(self.path.relative_to(FOLDER))

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return self.path.read_bytes()

    def renamed(self, name: str) -> bytes:
        """The bytes with another process id: a broker is shared."""
        return _PROCESS.sub(f'"{name}"'.encode(), self.content)

    def findings(self, chosen: Iterable[Rule] | None = None) -> list[Finding]:
        """What the chosen rules find in it, or all rules."""
        choose = rules_of if chosen is None else lambda _: chosen
        return list(inspect(self.content, self.name, self.settings, self.contracts, choose).findings)

    def errors(self) -> list[Finding]:
        """The findings that would keep it from being deployed."""
        return [finding for finding in self.findings() if finding.severity is Severity.ERROR]


def fixture_models(below: str) -> list[FixtureModel]:
    """All models below a folder of tests/lint, in the order of their names."""
    return [_open(path) for path in sorted((FOLDER / below).rglob("*.bpmn"))]


@cache
def passing_models() -> list[FixtureModel]:
    """The models of rules and traps that have no error; several modules ask while they are collected."""
    return [model for model in fixture_models("rules") + fixture_models("traps") if not model.errors()]


@cache
def contracts() -> Contracts:
    """The contracts that fixtures are checked against."""
    return read_contracts(FOLDER / "contracts")


def _open(path: Path) -> FixtureModel:
    note = _NOTE.search(path.read_bytes())
    options = dict(option.split("=") for option in note[1].decode().split()) if note else {}
    expected = frozenset(options.pop("expect", "none").split(",")) - {"none"}
    known = contracts() if options.pop("contracts", "all") == "all" else Contracts()
    return FixtureModel(path, _settings(**options), known, expected)


def _settings(
    *,
    engine: str = "8.8",
    service_tasks: str = "15",
    allow_identity_mappings: str = "false",
    profile: str = "hollow",
) -> Settings:
    return Settings(
        engine=engine,
        service_tasks=int(service_tasks),
        allow_identity_mappings=allow_identity_mappings == "true",
        profile=profile,
    )
