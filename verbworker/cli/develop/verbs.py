"""`verbworker verbs`: list the verbs and the models that use them, and write files for modellers and editors."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from verbworker.app.output import answer, complain, print_json, say, show
from verbworker.cli.shared_options import App, Json
from verbworker.errors import CannotRun

app = typer.Typer(help="Verbs: what you can start, and element templates for modellers.", no_args_is_help=True)

Check = Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file differs.")]
Out = Annotated[Path, typer.Option("--out", help="Output folder.")]
Printed = Annotated[bool, typer.Option("--json", help="Print instead of writing.")]


@app.command("list", epilog="Example: verbworker verbs list processes --app verbs:registry")
def list_verbs(
    models: Annotated[list[str] | None, typer.Argument(help="Models to search for uses: files or folders.")] = None,
    app: App = "verbs:registry",
    as_json: Json = False,
) -> None:
    """List every verb with its kind, sentence, arguments, policy, uses and error codes.

    With models, the uses are their elements; without, the workflow verbs that may call it.
    """
    from verbworker.app.verb_catalogue import cards
    from verbworker.app.wiring import load_app
    from verbworker.model.outline import outline
    from verbworker.profile.verify.models import read_models

    registry = load_app(app)
    found = cards(registry, [outline(model) for model in read_models(models or ())])
    if as_json:
        print_json([asdict(card) for card in found])
        return
    rows = [
        asdict(card) | {"arguments": card.takes, "used_by": card.used_by, "errors": card.ends_with} for card in found
    ]
    show(rows, columns=("verb", "kind", "sentence", "arguments", "policy", "used_by", "errors"), as_json=False)


@app.command("templates", epilog="Example: verbworker verbs templates --app verbs:registry --check")
def write_templates(
    app: App = "verbs:registry",
    out: Out = Path(".camunda/element-templates"),
    check: Check = False,
    as_json: Printed = False,
) -> None:
    """Write Camunda Modeler element templates for every sub-verb, gate and wait to one file.

    Camunda Modeler finds them in .camunda/element-templates beside the diagram or in a folder above it.
    """
    from verbworker.app.wiring import load_app
    from verbworker.model.element_templates import FILE, format_file, templates

    found = templates(load_app(app))
    text, file = format_file(found), out / FILE
    if check:
        _compare({file: text}, f"does not match the registry; run: verbworker verbs templates --app {app} --out {out}")
        answer(f"{file} is up to date", {"file": file, "templates": len(found)}, as_json=as_json)
    elif as_json:
        print_json(found)
    else:
        _write(file, text)
        say(f"wrote {len(found)} templates to {file}")


@app.command("schemas", epilog="Example: verbworker verbs schemas --check")
def write_schemas(
    out: Out = Path(),
    check: Check = False,
    as_json: Printed = False,
) -> None:
    """Write the JSON Schemas of verb and policy files to .schemas, so that editors complete and check them.

    A file names its schema in its first line: # yaml-language-server: $schema=../.schemas/verbs.schema.json
    """
    from verblint.contracts.json_schema import SCHEMAS, schema_files

    texts = {out / name: text for name, text in schema_files().items()}
    if check:
        _compare(texts, f"is not the schema of this version; run: verbworker verbs schemas --out {out}")
        answer(f"the schemas in {out} are up to date", {"files": [str(file) for file in texts]}, as_json=as_json)
    elif as_json:
        print_json({name: make() for name, make in SCHEMAS.items()})
    else:
        for file, text in texts.items():
            _write(file, text)
        say(f"wrote {' and '.join(str(file) for file in texts)}")


def _compare(texts: Mapping[Path, str], complaint: str) -> None:
    for file, text in texts.items():
        if _read(file) != text:
            complain(f"{file} {complaint}")
            raise typer.Exit(1)


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"{file} cannot be read: {_reason(error)}") from error


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotRun(f"--out {error.filename}: {error.strerror}; name a folder that can be written to") from error


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "it cannot be opened") if isinstance(error, OSError) else "it is not UTF-8"
