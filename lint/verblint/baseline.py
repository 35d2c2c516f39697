"""A baseline: existing findings that a project tolerates, while new ones fail.

It is a JSON file that identifies findings by file and fingerprint, so that a new layout does not bring them back. It
never contains file safety findings or suppressions.
"""

import os
from collections import Counter
from collections.abc import Mapping
from json import JSONDecodeError, dumps, loads

from verblint.fixes.write import write_whole
from verblint.report import Report, Suppressed, is_suppressible
from verblint.settings import SettingError
from verblint.startup.value import replace, value

_LAYOUT = 1  # raised when the file's form changes
_REASON = "in the baseline"


@value
class Baseline:
    """How often each fingerprint is tolerated in each file; files are relative to the baseline's folder."""

    folder: str
    known: Mapping[str, Mapping[str, int]]

    def forgive(self, report: Report) -> Report:
        """Return the report with every known finding moved to the suppressed ones."""
        left = {file: Counter(prints) for file, prints in self.known.items()}
        findings = []
        suppressed = list(report.suppressed)
        for finding in report.findings:
            prints = left.get(_relative(finding.file, self.folder))
            if prints is not None and is_suppressible(finding.code) and prints[finding.fingerprint] > 0:
                prints[finding.fingerprint] -= 1
                suppressed.append(Suppressed(finding, _REASON, False))
            else:
                findings.append(finding)
        return replace(report, findings=tuple(findings), suppressed=tuple(suppressed))

    def count_stale(self, report: Report) -> int:
        """Count the entries for the report's files that match no finding any more."""
        files = {_relative(file, self.folder) for file in report.files}
        listed = sum(sum(prints.values()) for file, prints in self.known.items() if file in files)
        return listed - sum(1 for entry in report.suppressed if not entry.is_in_model)


def read_baseline(path: str) -> Baseline:
    """Read a baseline from a file, or raise SettingError."""
    try:
        with open(path, encoding="utf-8") as file:
            document = loads(file.read())
    except OSError as error:
        raise SettingError(f"{path}: the baseline cannot be read: {error.strerror}") from None
    except (JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise SettingError(f"{path}: the baseline is not JSON; write it again with --write-baseline") from None
    if not _is_baseline(document):
        raise SettingError(f"{path}: this is not a baseline; write one with --write-baseline")
    known = {file: Counter(entry["fingerprint"] for entry in entries) for file, entries in document["files"].items()}
    return Baseline(os.path.dirname(path), known)


def write_baseline(report: Report, path: str) -> int:
    """Write every suppressible finding to a file and return their number."""
    files: dict[str, list[dict[str, str]]] = {}
    count = 0
    for finding in report.findings:
        if is_suppressible(finding.code):
            entry = {"fingerprint": finding.fingerprint, "code": finding.code, "element": finding.element_id}
            files.setdefault(_relative(finding.file, os.path.dirname(path)), []).append(entry)
            count += 1
    document = {"layout": _LAYOUT, "files": dict(sorted(files.items()))}
    write_whole(path, (dumps(document, indent=2) + "\n").encode())
    return count


def _is_baseline(document: object) -> bool:
    match document:
        case {"layout": 1, "files": dict(files)}:
            return all(
                isinstance(file, str) and isinstance(entries, list) and all(map(_is_entry, entries))
                for file, entries in files.items()
            )
        case _:
            return False


def _is_entry(entry: object) -> bool:
    match entry:
        case {"fingerprint": str()}:
            return True
        case _:
            return False


def _relative(file: str, folder: str) -> str:
    return os.path.relpath(file, folder or os.curdir).replace(os.sep, "/")
