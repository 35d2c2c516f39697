"""The retries of a job equal those of its policy, or are left out."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB403", "retries-not-policy", Severity.ERROR, on=("retries",))
def check(context: Context) -> Iterator[Finding]:
    """The retries of a job equal those of its policy, or are left out.

    The policy of a sub-verb alone defines how often it is tried. If the number is left out, it is filled in when the
    model is deployed. If it is written, it must be the same number.

    Wrong:  retries="10" where the policy has maximum_attempts: 3
    Right:  retries="3", or no retries
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for _, node in process.walk():
            retries = node.binding.retries
            if retries is None:
                continue
            policy = context.contracts.policies.get(verb.policy_of(node.binding.job_type)) if verb is not None else None
            if not _is_number(retries.text):
                message = f"retries is {retries.text!r}, not a number"
                yield context.at(retries, message, hint="Remove the attribute: the policy says how often")
            elif policy is not None and int(retries.text) != policy.attempts:
                message = f"retries is {retries.text}, and the policy {policy.name} says {policy.attempts}"
                yield context.at(retries, message, hint=f'Write retries="{policy.attempts}", or remove it')


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and not text.startswith("0") and len(text) < 10
