"""A finding: one violation of one rule, with everything needed to show it, to fix it and to know it again."""

from enum import StrEnum

from verblint.startup.value import value


class Severity(StrEnum):
    """How bad a finding is: an error when no intent makes the model work, a warning when one might."""

    ERROR = "error"
    WARNING = "warning"


@value
class Edit:
    """One replacement of the bytes from `start` to `end`."""

    start: int
    end: int
    replacement: bytes


@value
class Fix:
    """A safe rewrite: edits that do not overlap, and a sentence that says what they do."""

    description: str
    edits: tuple[Edit, ...]


@value(kw_only=True)
class Finding:
    """What is wrong, where, and what to write instead.

    Lines and columns count from 1; the end column is the one after the last character. `detail` tells two
    findings of one rule on one element apart and must not depend on the layout of the file. `offset` is the byte
    the place begins at.
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
        """An identity that survives re-layout: code, process, element and detail, hashed."""
        # OpenSSL takes longer to load than a model to check, and a clean model has no fingerprints.
        from hashlib import sha256

        parts = (self.code, self.process_id, self.element_id, self.detail)
        return sha256("\0".join(parts).encode()).hexdigest()[:32]


def is_suppressible(code: str) -> bool:
    """False for file safety, which cannot excuse itself, and for suppressions, of which none can excuse another."""
    return not code.startswith(("HB0", "HB9"))
