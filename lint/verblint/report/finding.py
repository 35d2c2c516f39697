"""A finding: one violation of one rule, with all that is needed to show, fix and recognize it."""

from enum import StrEnum

from verblint.startup.value import value


class Severity(StrEnum):
    """How severe a finding is: an error if no intention makes the model work, a warning if one might."""

    ERROR = "error"
    WARNING = "warning"


@value
class Edit:
    """Replaces the bytes from `start` to `end`."""

    start: int
    end: int
    replacement: bytes


@value
class Fix:
    """A safe rewrite: edits that do not overlap, and a sentence that describes them."""

    description: str
    edits: tuple[Edit, ...]


@value(kw_only=True)
class Finding:
    """What is wrong, where, and what to write instead.

    Lines and columns count from 1; the end column is the one after the last character. `detail` distinguishes findings
    of one rule on one element and must not depend on the layout of the file. `offset` is the first byte of the place.
    """

    code: str
    slug: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    offset: int = 0
    hint: str = ""
    element_id: str = ""
    element_name: str = ""
    element_type: str = ""
    process_id: str = ""
    detail: str = ""
    fix: Fix | None = None

    @property
    def fingerprint(self) -> str:
        """A hash of code, process, element and detail, which does not change with the layout."""
        # Importing OpenSSL takes longer than checking a model, and a clean model needs no fingerprints.
        from hashlib import sha256

        parts = (self.code, self.process_id, self.element_id, self.detail)
        return sha256("\0".join(parts).encode()).hexdigest()[:32]


def is_suppressible(code: str) -> bool:
    """Return whether a code can be suppressed: not file safety, nor suppressions, which must not excuse each other."""
    return not code.startswith(("HB0", "HB9"))
