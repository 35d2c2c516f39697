"""The workflow verb that the measured instances belong to."""

from verbworker.contract.workflow import WorkflowVerb


def workflow(domain: str) -> WorkflowVerb:
    """The workflow verb the instances belong to."""
    return WorkflowVerb(
        name=f"{domain}.flow",
        version=1,
        process=f"{domain}-flow",
        schema=f"{domain}.flow/v1",
        sub_verbs=(f"{domain}.go",),
    )
