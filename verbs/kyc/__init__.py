"""Know your customer: a case is opened, papers are asked for, names are screened, and a person decides."""

from verbs.kyc import documents, record, review, screening
from verbworker import Registry

verbs = Registry.of(record.verbs, documents.verbs, screening.verbs, review.verbs)
