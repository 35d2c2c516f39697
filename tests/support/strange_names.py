"""Compiled processes with names that no contract should have, and that every contract may have."""

from collections.abc import Mapping, Sequence
from typing import Any

from verbworker.contract.workflow import WorkflowVerb
from verbworker.profile.compile import Compiled

POLICY = {
    "schedule_to_close_timeout_seconds": 3600.0,
    "start_to_close_timeout_seconds": 0.5,
    "retry": {
        "maximum_attempts": 3,
        "initial_interval_seconds": 1.0,
        "maximum_interval_seconds": 60.0,
        "backoff_coefficient": 2.0,
        "non_retryable_error_types": [],
    },
}


def compiled(
    *,
    verb: str = "kyc.open-case",
    jobs: Sequence[str] = (),
    messages: Mapping[str, str | None] | None = None,
    gates: Mapping[str, Sequence[str]] | None = None,
    flags: Mapping[str, Sequence[str] | str] | None = None,
    policies: Mapping[str, Any] | None = None,
    definition_id: str | None = "kyc-open-case/1",
) -> Compiled:
    """A compiled process: messages with the template of their key, gates with their answers, flags with their type."""
    tasks = [{"id": f"task_{index}", "task": {"type": job}} for index, job in enumerate(jobs)]
    people = [
        {"id": f"person_{index}", "gate": {"name": f"Update_{name}", "gate": name, "decisions": list(answers)}}
        for index, (name, answers) in enumerate((gates or {}).items())
    ]
    return Compiled(
        process_id="kyc-open-case",
        verb=verb,
        definition_id=definition_id,
        ir={
            "process": {"id": "kyc-open-case"},
            "nodes": [*tasks, *people],
            "edges": [],
            "messages": [_message(*one) for one in (messages or {}).items()],
            "flags": {name: _flag(kind) for name, kind in (flags or {}).items()},
        },
        policies=dict(policies or {}),
    )


def workflow(verb: str = "kyc.open-case") -> WorkflowVerb:
    return WorkflowVerb(name=verb, version=1, process="kyc-open-case", schema=f"{verb}/v1")


def _message(name: str, template: str | None) -> dict[str, str]:
    told = {"id": f"message_{name}", "name": name}
    return told if template is None else {**told, "key": "corr_it", "template": template}


def _flag(kind: Sequence[str] | str) -> dict[str, object]:
    if isinstance(kind, str):
        return {"type": kind, "values": [], "initial": None}
    return {"type": "enum", "values": list(kind), "initial": kind[0]}


STRANGE: Mapping[str, Compiled] = {
    "nothing": compiled(definition_id=None),
    "keywords": compiled(
        jobs=["kyc.class", "kyc.def", "kyc.none", "import.from"],
        messages={"kyc.class": "${state.class}", "kyc.None": "${state.lambda}/${state.import}", "async": None},
        gates={"class": ["pass", "None"], "None": [], "def": ["class"]},
        flags={"orch_class": "boolean", "orch_def": ["class", "def"], "orch_is": "integer"},
        policies={"class": POLICY},
    ),
    "alike": compiled(
        jobs=["kyc.a-b", "kyc.a.b", "a.b", "kyc.a-b-2"],
        messages={"a-b": "${state.a.b}/${state.a_b}", "a_b": "${state.a-b}", "a.b": None, "kyc.a b": "${state.A_B}"},
        gates={"a-b": ["x"], "a_b": ["x"], "a.b": ["x", "y"], "A_B": []},
        flags={"orch_a_b": ["x", "y"], "orch_a": "string"},
        policies={"a-b": POLICY, "a_b": POLICY},
    ),
    "our own": compiled(
        jobs=["call.any", "final.literal"],
        messages={
            "Call": "${state.payload}",
            "message": "${state.message_id}${state.tenant_id}${state.correlation_key}",
            "review-decision": "${state.call}",
        },
        gates={"review": ["a"], "latest_review": ["a"], "Flags": ["a"]},
        flags={"orch_flags": ["a"], "orch_call": "boolean", "orch_policies": "string"},
    ),
    "quotes": compiled(
        messages={
            'say "it\'s"': 'it\'s "${state.a}"',
            "back\\slash": "\\\\${state.a}",
            "line\nbreak\ttab": "{brace} ${state.a} }",
            "Überprüfung 検査 🙂": "検/${state.a}",
            "…": "\\${literal}/${state.a}",
            "%s {0} \\x41 \\N{DASH}": "${args.entity}/${state.a}",
            "https://example.org/" + "x" * 200: "${state.a}",
        },
        gates={"_": ["it's {so}"], "1st": ["no #noqa", "# type: ignore"]},
        flags={"orch_x": ["it's", "a, b", "{c}", "#"]},
    ),
    "long": compiled(
        jobs=["kyc." + "long-" * 40 + "verb", "kyc." + "long-" * 40 + "verb-too"],
        messages={
            "m" * 300: "x" * 300 + "${state." + "a" * 90 + "}" + "y" * 101,
            "m " * 60: "${state." + ".".join(["deep"] * 60) + "}",
            "m" * 101: "${state.a}",
        },
        gates={"g" * 300: ["y" * 200], "h" * 200: ["y" * 117, "n" * 118, "o" * 119], "i": ["z" * 200, "w " * 90]},
        flags={
            "orch_" + "f" * 300: "boolean",
            "orch_" + "e" * 200: ["v" * 200, "w"],
            "orch_g": [f"{number}" * 9 for number in range(30)],
        },
        policies={"p" * 100: {**POLICY, "retry": {"non_retryable_error_types": ["E" * 300, "F"]}}},
        definition_id="d" * 104,
    ),
}
