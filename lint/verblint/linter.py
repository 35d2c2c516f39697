"""The linter: takes a file or bytes, runs the rules on it and returns a report."""

import os
from collections.abc import Iterable

from verblint.bpmn.element import VERBWORKER
from verblint.bpmn.reader import OVER_LIMIT, ModelError, read
from verblint.contracts.contract import Contracts
from verblint.report import Finding, Problem, Report, Suppressed
from verblint.rule import CRASHED, Context, Rule
from verblint.rules.index import FAMILIES, Choice, Selection, family, find_relevant, rules_of
from verblint.settings import HOLLOW, PLAIN, STRICT_V1, Project, SettingError, Settings
from verblint.startup import TYPE_CHECKING
from verblint.startup.value import replace

if TYPE_CHECKING:
    from typing import IO

    from verblint.contracts.strict_yaml import ContractFault

_DEFAULTS = Project()
_NO_CONTRACTS = Contracts()
_POLICIES = "policies.yaml"
_UNUSED = "HB901"
_CHUNK = 65_536  # bytes read at a time


class Linter:
    """A project's rules, settings and contracts, ready to check any number of files."""

    def __init__(self, project: Project = _DEFAULTS, contracts: Contracts | None = None, today: str = "") -> None:
        """Read the project's contracts unless some are given. Raises SettingError or ContractError."""
        self.project = project
        self._contracts = contracts if contracts is not None else read_contracts(project)
        self._selection = Selection(project)
        self._today = today

    def __reduce__(self) -> tuple[type["Linter"], tuple[Project, Contracts, str]]:
        # Rules are functions and cannot be pickled; the receiving process loads its own.
        return Linter, (self.project, self._contracts, self._today)

    def lint(self, content: bytes, name: str) -> Report:
        """Lint bytes under a file name."""
        choose = self._selection.of(self._below_project(name))
        contracts, faults = self._contracts_beside(name)
        if faults:
            return Report(problems=tuple(Problem("", str(fault)) for fault in faults))
        settings = replace(self.project.settings, profile=PLAIN) if self.is_plain(name) else self.project.settings
        return inspect(content, name, settings, contracts, choose, today=self._today)

    def is_plain(self, name: str) -> bool:
        """Return whether the settings say that a file is not hollow, but served by plain tasks."""
        return self._selection.is_plain(self._below_project(name))

    def lint_file(self, path: str) -> Report:
        """Lint one file. A file that cannot be read is reported as a problem, never as clean."""
        try:
            content = read_file(path, self.project.settings.limits.size + 1)
        except (OSError, ValueError) as error:
            return Report(problems=(Problem(path, getattr(error, "strerror", None) or str(error)),))
        return self.lint(content, path)

    def read(self, file: "IO[bytes]") -> bytes:
        """Read a file, at most one byte more than the reader accepts."""
        return file.read(self.project.settings.limits.size + 1)

    def _contracts_beside(self, name: str) -> "tuple[Contracts, tuple[ContractFault, ...]]":
        """Return the contracts, including policies from a policy file beside the model."""
        file = os.path.join(os.path.dirname(name), _POLICIES)
        if self._contracts == _NO_CONTRACTS or not os.path.isfile(name) or not os.path.isfile(file):
            return self._contracts, ()
        from pathlib import Path

        from verblint.contracts.contract_files import ContractError, read_policies

        try:
            own = read_policies([Path(file)], is_exact=self.project.settings.profile == STRICT_V1)
        except ContractError as error:
            return self._contracts, error.faults
        return replace(self._contracts, policies={**self._contracts.policies, **own}), ()

    def _below_project(self, name: str) -> str:
        if not self.project.per_file_ignores and not self.project.plain:
            return name
        return os.path.relpath(name, self.project.folder or os.curdir).replace(os.sep, "/")


def lint(
    target: str | os.PathLike[str] | bytes,
    *,
    name: str = "<bytes>",
    project: Project = _DEFAULTS,
    contracts: Contracts | None = None,
) -> Report:
    """Lint one file, or bytes under a name.

    A string is a path. Without a project the defaults apply (`find_project()` finds one). Any input yields a report:
    with findings, or with the problem that prevented the check.
    """
    linter = Linter(project, contracts)
    if isinstance(target, bytes):
        return linter.lint(target, name)
    return linter.lint_file(os.fspath(target))


def lint_files(linter: Linter, paths: Iterable[str]) -> Report:
    """Lint files one by one and return a single report."""
    return Report.of(linter.lint_file(path) for path in paths)


def read_file(path: str, most: int) -> bytes:
    """Read at most `most` bytes of a file."""
    # Unlike `open().read(most)`, this does not allocate a buffer of the maximum size.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        parts: list[bytes] = []
        while most and (part := os.read(descriptor, min(_CHUNK, most))):
            parts.append(part)
            most -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def read_contracts(project: Project) -> Contracts:
    """Read the contracts a project names; empty without a folder of verbs."""
    if not project.verbs:
        if project.policies:
            raise SettingError("policies are given without verbs: name the folder of verb contracts too")
        return Contracts()
    # Importing YAML takes longer than checking a model, and only some projects need it.
    from pathlib import Path

    from verblint.contracts.contract_files import read_contracts as read

    folder = project.path(project.verbs)
    if not os.path.isdir(folder):
        raise SettingError(f"{folder}: there is no such folder of verb contracts")
    policies = [Path(project.path(policies)) for policies in project.policies]
    is_exact = project.settings.profile == STRICT_V1
    contracts = read(Path(folder), policies, is_exact=is_exact)
    if contracts == Contracts():
        raise SettingError(f"{folder}: the folder holds no verb contract")
    return contracts


def inspect(
    content: bytes,
    name: str = "<bytes>",
    settings: Settings = _DEFAULTS.settings,
    contracts: Contracts = _NO_CONTRACTS,
    choose: Choice = rules_of,
    *,
    today: str = "",
) -> Report:
    """Run the chosen rules, or all, on one file. A file that the reader refuses has exactly one finding, the reason."""
    found, suppressed = _run_rules(content, name, settings, contracts, choose, today)
    findings = sorted(found, key=lambda finding: (finding.line, finding.column, finding.code, finding.detail))
    if len(findings) > settings.limits.findings:
        findings = _cut(findings, name, settings.limits.findings)
    return Report(
        files=(name,),
        findings=tuple(findings),
        suppressed=tuple(suppressed),
        problems=tuple(Problem(name, finding.message) for finding in findings if finding.code == CRASHED.code),
        sources={name: content} if findings else {},
    )


def _run_rules(
    content: bytes, name: str, settings: Settings, contracts: Contracts, choose: Choice, today: str
) -> tuple[list[Finding], list[Suppressed]]:
    try:
        root = read(content, name, settings.limits)
    except ModelError as error:
        return [_finding(_refusal(error.code), name, error.message, line=error.line, column=error.column)], []
    try:
        context = Context.of(root, settings, contracts, today)
        findings = [finding for rule in find_relevant(context, choose) for finding in rule.run(context)]
        if all(namespace != VERBWORKER for namespace, _ in context.elements):
            return findings, []
        return _suppress(context, findings, choose)
    except Exception as error:
        message = f"the model could not be made of this file: {type(error).__name__}, so no rule has checked it"
        return [_finding(CRASHED, name, message, hint="This is a bug of verblint: report it with the model")], []
    finally:
        root.document.take_apart()


def _cut(findings: list[Finding], name: str, most: int) -> list[Finding]:
    """Return the first findings, and one that tells how many are left out."""
    message = f"more than {most:,} findings: {len(findings) - most:,} are not shown"
    last, rule = findings[most], _refusal(OVER_LIMIT)
    return [*findings[:most], _finding(rule, name, message, line=last.line, column=last.column)]


def _refusal(code: str) -> Rule:
    return next(rule for rule in family("refusals") if rule.code == code)


def _suppress(context: Context, findings: list[Finding], choose: Choice) -> tuple[list[Finding], list[Suppressed]]:
    """Apply the suppressions of a model, and report the unused ones."""
    from verblint.suppression import current_date, sort_out

    left, suppressed, unused = sort_out(context.root, findings, context.today or current_date())
    # A narrower profile leaves some rules nothing to find, but a model is not written for one profile alone.
    if unused and context.settings.profile == HOLLOW:
        chosen = tuple(choose(FAMILIES))
        ran = {name for rule in chosen if rule.is_suppressible for name in (rule.code.lower(), rule.slug)}
        # If its rule did not run, a suppression may still be needed.
        context = replace(context, unused=tuple(s for s in unused if s.rule.lower() in ran))
        left += [finding for rule in chosen if rule.code == _UNUSED for finding in rule.run(context)]
    return left, suppressed


def _finding(rule: Rule, name: str, message: str, *, line: int = 1, column: int = 1, hint: str = "") -> Finding:
    """Create a finding of a file that has no model."""
    return Finding(
        code=rule.code,
        slug=rule.slug,
        severity=rule.severity,
        message=message,
        hint=hint,
        file=name,
        line=line,
        column=column,
        end_line=line,
        end_column=column + 1,
    )
