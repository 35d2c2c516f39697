"""Scaffold a working process: model, policies, contract, verbs, entry points, image and tests.

User files are written once. Compiled files are rewritten on request, and a verb that the model calls and nobody wrote
gets a file to write it in.
"""

import json
import keyword
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from verblint.contracts.contract import DirectVerb
from verblint.contracts.json_schema import schema_files
from verblint.contracts.syntax import PROJECT_NAME
from verblint.settings import SettingError, find_project
from verbworker.contract.policy import load_policies
from verbworker.contract.workflow import WorkflowVerb, load_verbs, workflow_verbs
from verbworker.errors import CannotRun, Refused
from verbworker.profile.compile import compile_model
from verbworker.profile.lock import FILE, lock_of
from verbworker.profile.verify.atomic_write import full, write_together
from verbworker.profile.verify.generate import SUFFIX, generate_module, module_name
from verbworker.profile.verify.python_source import Names, pascal, stem

_LONGEST_NAME = 40  # characters; it becomes a module, a folder and a part of ids
_TAKEN = ("verbworker", "verblint", "verbs", "tests")
# What a project needs besides a process, each written only if it is missing.
_AROUND = {
    "pyproject.toml": "project/pyproject.toml",
    "verbs/__init__.py": "project/verbs.py",
}
_REGISTRY = "verbs/__init__.py"
# The two lines of a registry as `init` writes it.
_IMPORT = re.compile(r"^from verbs import (\w+(?:, \w+)*)$", re.MULTILINE)
_REGISTRIES = re.compile(r"\bRegistry\.of\((\w+\.verbs(?:, \w+\.verbs)*)\)")
# A job type in a generated module.
_JOB = re.compile(r'^(JOB_\w+): Final = "(.+)"$', re.MULTILINE)
_OWNED = {
    "processes/@name@/process.bpmn": "process/process.bpmn",
    "processes/@name@/policies.yaml": "process/policies.yaml",
    "processes/@name@/README.md": "process/README.md",
    "processes/@name@/catalog-info.yaml": "process/catalog-info.yaml",
    "processes/@name@/Dockerfile": "process/Dockerfile",
    "processes/@name@/Dockerfile.dockerignore": "process/Dockerfile.dockerignore",
    "verbs/@package@/__init__.py": "verbs/__init__.py",
    "verbs/@package@/@name@.yaml": "verbs/contract.yaml",
    "verbs/@package@/case.py": "verbs/case.py",
    "verbs/@package@/answer.py": "verbs/answer.py",
    "verbs/@package@/outcome.py": "verbs/outcome.py",
    "verbs/@package@/worker.py": "verbs/worker.py",
    "verbs/@package@/ingress.py": "verbs/ingress.py",
    "tests/test_@package@_compile.py": "tests/test_compile.py",
    "tests/test_@package@_workflow.py": "tests/test_workflow.py",
}


@dataclass(frozen=True, slots=True)
class Scaffolded:
    """The result: paths written, paths left unchanged, and remaining steps."""

    package: str
    written: tuple[str, ...]
    left: tuple[str, ...]
    advice: tuple[str, ...]
    registered_in: tuple[str, ...] = ()


def check_name(name: str) -> None:
    """Check that a process may have this name; raises `Refused` with the rules for names."""
    if not PROJECT_NAME.fits(name) or len(name) > _LONGEST_NAME:
        raise Refused(
            f"{name!a} is not a valid process name: use lower-case letters, digits and single hyphens, as in"
            f" parcel-return, at most {_LONGEST_NAME} characters"
        )
    if keyword.iskeyword(name) or name in _TAKEN:
        raise Refused(f"{name} is reserved by Python or verbworker; choose another name")


def scaffold(directory: Path, name: str) -> Scaffolded:
    """Write a process into a project, or recompile an existing one. All files are written or none.

    User files are never overwritten: raises `Refused` if some of them exist and the model does not.
    """
    check_name(name)
    if not full(directory).is_dir():
        raise Refused(f"{directory} does not exist; create the project's directory first")
    with chdir(directory):
        return _compiled_anew(name) if os.path.lexists(_model(name)) else _new(name)


def contents(name: str) -> Mapping[str, str]:
    """Return the text of every user file by its path, for a process of this name."""
    return {_fill(path, name): _text(shipped, name) for path, shipped in _OWNED.items()}


def _new(name: str) -> Scaffolded:
    texts = dict(contents(name))
    there = [path for path in texts if os.path.lexists(path)]
    if there:
        raise Refused(f"{there[0]} exists, but {_model(name)} does not; nothing was written")
    _refuse_rivals(name)
    shared = {path: _text(shipped, name) for path, shipped in _AROUND.items()} | schema_files()
    around = {path: text for path, text in shared.items() if not os.path.lexists(path)}
    registered = {} if _REGISTRY in around else _register(_package(name))
    advice = tuple(_advice(name, {**around, **registered}))
    made = {**around, **texts, **_compile(name, texts)}
    write_together(Path(), {**made, **registered}, replacing=registered.keys())
    return Scaffolded(_package(name), tuple(sorted(made)), (), advice, tuple(registered))


def _register(package: str) -> dict[str, str]:
    """Return the user's registry with one package more, if it has the form that `init` writes; else nothing."""
    text = Path(_REGISTRY).read_text(encoding="utf-8")
    imports, registries = list(_IMPORT.finditer(text)), list(_REGISTRIES.finditer(text))
    if len(imports) != 1 or len(registries) != 1:
        return {}
    names = ", ".join(sorted({*imports[0][1].split(", "), package}))
    text = _REGISTRIES.sub(lambda found: f"Registry.of({found[1]}, {package}.verbs)", text)
    return {_REGISTRY: _IMPORT.sub(f"from verbs import {names}", text)}


def _compile(name: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files compiled from model, contract and policies."""
    with tempfile.TemporaryDirectory(prefix="verbworker-") as place:
        contract, policies = Path(place) / f"{name}.yaml", Path(place) / "policies.yaml"
        contract.write_text(texts[f"verbs/{_package(name)}/{name}.yaml"], encoding="utf-8")
        workflow = _workflow(Path(place), name)
        policies.write_text(texts[f"processes/{name}/policies.yaml"], encoding="utf-8")
        compiled = compile_model(texts[_model(name)].encode(), [workflow], load_policies(policies))
    return {
        f"processes/{name}/{FILE}": lock_of(compiled).to_bytes().decode(),
        f"verbs/{_package(name)}/{module_name(name)}": generate_module(compiled, workflow),
    }


def _compiled_anew(name: str) -> Scaffolded:
    """Update the generated files of a process from its model, in any state of the rest."""
    # Imported here: most of what verifying needs is not used by a first scaffold.
    from verbworker.profile.verify.models import read_models
    from verbworker.profile.verify.sources import open_sources
    from verbworker.profile.verify.verifier import verify

    models = read_models([_model(name)])
    verified = verify(models, open_sources(models))
    if verified.report.errors and not verified.stale:
        raise Refused(f"{_model(name)} has errors, so it is not compiled; run: verbworker verify processes/{name}")
    texts = {path: content.decode() for path, content in verified.outdated.items()}
    left = [path for path in (_fill(path, name) for path in _OWNED) if os.path.lexists(path)]
    compiled = {os.path.basename(path): content.decode() for path, content in verified.compiled.items()}
    stubs = dict(_stubs(name, compiled, verified.sources.contracts.directs)) if compiled else {}
    write_together(Path(), {**texts, **stubs}, replacing=texts.keys())
    written = tuple(sorted((*texts, *stubs)))
    return Scaffolded(_package(name), written, tuple(sorted(left)), tuple(_register_advice(name, stubs)))


def _stubs(name: str, compiled: Mapping[str, str], directs: Mapping[str, DirectVerb]) -> Iterator[tuple[str, str]]:
    """Yield a file for every verb of this process that the model calls and no file of its package mentions."""
    package = Path("verbs") / _package(name)
    own = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in package.glob("*.py")
        if not path.name.endswith(SUFFIX)
    ]
    nodes = [node for node in json.loads(compiled[FILE])["ir"]["nodes"] if "task" in node]
    for constant, verb in _JOB.findall(compiled[module_name(name)]):
        if verb not in directs or not verb.startswith(f"{name}."):
            continue
        path = package / f"{_function(name, verb)}.py"
        mentioned = re.compile(rf"\b{constant}\b|[\"']{re.escape(verb)}[\"']")
        if os.path.lexists(path) or any(mentioned.search(text) for text in own):
            continue
        steps = [step for node in nodes if node["task"]["type"] == verb for step in node.get("mapping", ())]
        yield str(path), _stub(name, directs[verb], constant, steps)


def _stub(name: str, verb: DirectVerb, constant: str, steps: Sequence[Sequence[str]]) -> str:
    """Return the text of a verb that is still to be written, with the fields that its task maps."""
    ends = [source if kind == "output" else target for kind, source, target in steps]
    fields = dict.fromkeys(end.split(".")[1] for end in ends) or dict.fromkeys(verb.writes or ())
    # pydantic takes no private name, and Python no keyword: such a field is left to whoever writes the verb.
    names = [field for field in fields if not field.startswith("_") and not keyword.iskeyword(field)]
    own = _function(name, verb.name)
    writes = "" if verb.writes is None else f", writes=({''.join(json.dumps(field) + ', ' for field in verb.writes)})"
    filled = {
        "verb": verb.name,
        "class": pascal(own),
        "constant": constant,
        "stem": own,
        "mode": verb.mode or "transactional",
        "writes": writes.replace(", )", ",)") if len(verb.writes or ()) == 1 else writes.replace(", )", ")"),
        "fields": "\n".join(f"    {field}: Any = None" for field in names) or "    model_config = {}",
    }
    text = _text("verbs/stub.py", name)
    for place, value in filled.items():
        text = text.replace(f"@{place}@", value)
    return text


def _function(name: str, verb: str) -> str:
    """Return the name of a verb's function and module: none that the file itself or Python uses."""
    return Names(("gen", "verbs", "worker", "ingress", "BaseModel", "Call", "Registry", "Result", "Any")).claim(
        stem(verb.removeprefix(f"{name}.")), ("{}", "{P}")
    )


def _register_advice(name: str, stubs: Collection[str]) -> Iterator[str]:
    package = _package(name)
    for path in sorted(stubs):
        module = Path(path).stem
        yield f"NOT DONE YET: write {path}, and register it in verbs/{package}/__init__.py:"
        yield f"  from verbs.{package} import {module}"
        yield f"  verbs = Registry.of(..., {module}.verbs)"


def _refuse_rivals(name: str) -> None:
    """Refuse a name that is already declared in a file the scaffold would not have written."""
    if not Path("verbs").is_dir():
        return
    for workflow in workflow_verbs(load_verbs(Path("verbs"))):
        if workflow.process == name or workflow.name.startswith(f"{name}."):
            raise Refused(
                f"the verb {workflow.name} and its process {workflow.process} exist already; nothing was written"
            )


def _advice(name: str, around: Mapping[str, str]) -> Iterator[str]:
    """Yield what the user must add to files that existed before."""
    package = _package(name)
    if _REGISTRY not in around:
        yield f"NOT DONE YET: the registry of your other verbs lacks it, and their tests may fail; add to {_REGISTRY}:"
        yield f"  from verbs import {package}"
        yield f"  registry = Registry.of(..., {package}.verbs)"
    if "pyproject.toml" not in around and not _knows_verbs():
        yield "to make its contract known, add to pyproject.toml:"
        yield "  [tool.verblint]"
        yield '  verbs = "verbs"'


def _knows_verbs() -> bool:
    try:
        return bool(find_project().verbs)
    except SettingError as error:
        raise CannotRun(f"{error}; nothing was written") from error


def _workflow(folder: Path, name: str) -> WorkflowVerb:
    found = next((verb for verb in workflow_verbs(load_verbs(folder)) if verb.process == name), None)
    if found is None:
        raise CannotRun(f"the contract of {name} declares no process of that name")
    return found


def _model(name: str) -> str:
    return f"processes/{name}/process.bpmn"


def _package(name: str) -> str:
    return name.replace("-", "_")


def _text(shipped: str, name: str) -> str:
    # Under their real names, Python and YAML files would be treated as part of this package.
    place = (files("verbworker.profile.verify") / "files").joinpath(*f"{shipped}.in".split("/"))
    return _fill(place.read_text(encoding="utf-8"), name)


def _fill(text: str, name: str) -> str:
    title = name.replace("-", " ").capitalize()
    return text.replace("@name@", name).replace("@package@", _package(name)).replace("@title@", title)
