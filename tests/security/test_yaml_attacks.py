"""Contracts that make objects, grow in memory or say one thing twice: each is refused with its place."""

from pathlib import Path

import pytest

from tests.support.command import verbworker
from verblint.contracts.contract_files import ContractError, read_contracts

pytestmark = pytest.mark.attack("YAML")

VERB = "verb: kyc.open\nversion: 1\nstrategy: workflow\nprocess: kyc-open\n"
_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)

FILES: dict[str, str] = {
    "an object": VERB + "summary: !!python/object/apply:os.system ['touch made']\n",
    "a new object": VERB + "summary: !!python/object/new:os.system ['touch made']\n",
    "a name": VERB + "summary: !!python/name:os.system\n",
    "a module": VERB + "summary: !!python/module:os\n",
    "a tag of one's own": VERB + "summary: !x y\n",
    "a verbatim tag": VERB + "summary: !<tag:yaml.org,2002:python/name:os.system> x\n",
    "bytes": VERB + "summary: !!binary aGk=\n",
    "a set": VERB + "sub_verbs: !!set {kyc.ask}\n",
    "laughs": _BOMB + VERB,
    "an anchor": VERB + "summary: &x text\nowner: *x\n",
    "itself": VERB + "args: &x {a: *x}\n",
    "a merge": VERB + "flags: {<<: {orch_a: {type: boolean, initial: true}}}\n",
    "a key twice": VERB + "version: 2\n",
    "a key twice, below": VERB + "gates: {a: {task: x, task: y}}\n",
    "a gate twice": VERB + "gates:\n  a: {audience: reviewer}\n  a: {audience: clerk}\n",
    "two documents": VERB + "---\n" + VERB,
    "a directive": "%TAG ! tag:yaml.org,2002:python/\n---\n" + VERB + "summary: !name:os.system x\n",
    "a number for a key": VERB + "gates: {1: {}}\n",
    "a list for a key": VERB + "? [a, b]\n: c\n",
    "null for a key": VERB + "~: x\n",
    "a date": VERB + "summary: 2026-01-01\n",
    "yes": VERB + "gates: {a: {four_eyes: yes}}\n",
    "a number in base sixty": VERB.replace("version: 1", "version: 1:30"),
    "an octal number": VERB.replace("version: 1", "version: 0o7"),
    "not a number": VERB + "payload: {budget: .nan}\n",
    "infinity": VERB + "payload: {budget: .inf}\n",
    "a huge number": VERB.replace("version: 1", "version: " + "9" * 5_000),
    "depth": VERB + "args: " + "[" * 20_000 + "]" * 20_000 + "\n",
    "depth of objects": VERB + "args: " + "{a: " * 3_000 + "1" + "}" * 3_000 + "\n",
    "a tab": VERB + "gates:\n\ta: {}\n",
    "a null letter": VERB + "summary: 'a\x00b'\n",
    "a control letter": VERB + "summary: 'a\x9bb'\n",
    "no end": VERB + "gates: {a: {\n",
    "a path for a process": VERB.replace("kyc-open", "../../etc/passwd"),
    "a query for a verb": VERB.replace("kyc.open", "kyc.open'; DROP TABLE x"),
    "a role that is two": VERB + "gates: {a: {audience: 'reviewer,clerk'}}\n",
    "a role with a line": VERB + 'gates: {a: {audience: "reviewer\\nclerk"}}\n',
    "the reader as the audience": VERB + "gates: {a: {audience: [reviewer, reader]}}\n",
    "four eyes of nobody": VERB + "gates: {a: {distinct_from: [b]}}\n",
    "nothing but a text": "kyc.open\n",
    "a list": "- a\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_contract_that_is_none_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "open.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(ContractError) as refused:
        read_contracts(tmp_path)

    assert "open.yaml" in str(refused.value)
    assert len(str(refused.value)) < 5_000
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["an object", "laughs", "depth", "a huge number"])
def test_the_command_says_the_same_without_a_traceback(tmp_path: Path, name: str) -> None:
    (tmp_path / "verbs").mkdir()
    (tmp_path / "verbs" / "open.yaml").write_text(FILES[name], encoding="utf-8")
    (tmp_path / "model.bpmn").write_text("<definitions/>")
    said = verbworker("lint", "--verbs", "verbs", "model.bpmn", directory=tmp_path)

    assert said.code in (1, 2), said
    assert "Traceback" not in said.out + said.err
    assert not (tmp_path / "made").exists()
