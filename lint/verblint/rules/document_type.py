"""A model has no DOCTYPE."""

from collections.abc import Iterator

from verblint.bpmn.reader import DOCUMENT_TYPE
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_by_reader
from verblint.rule import Context, rule


@rule(DOCUMENT_TYPE, "document-type", Severity.ERROR, on=(DOCUMENT_TYPE,))
def check(context: Context) -> Iterator[Finding]:
    """A model has no DOCTYPE.

    A document type can define entities, and entities can read files, fetch addresses and grow without limit. BPMN does
    not need them, and the engine refuses them, as does every careful reader.

    Wrong:  <!DOCTYPE definitions [<!ENTITY x "...">]>
    Right:  <?xml version="1.0" encoding="UTF-8"?> and then the definitions
    """
    return refused_by_reader(context)
