"""Measure the shape of the code and fail beyond the limits: `python -m tests.shape`.

Counts modules per folder, class and module names that exist more than once, functions named by a participle, odd words
in docstrings, comments, queries and pages, and lines per package.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("verbworker", "lint/verblint")
PAGES = ("*.md", "docs/**/*.md", "**/README.md")
QUOTED = ":(exclude)tests/conformance/recorded/README.md"
"""A table of recorded requests, by the names that the recordings give them."""

MOST_MODULES = 15
MOST_LINES = 400
MOST_FUNCTION_LINES = 60
MOST_CLASS_HOMONYMS = 5
MOST_PARTICIPLES = 11
MOST_ING_FUNCTIONS = 25
MOST_ODD_WORDS = 3.0  # per 1,000 words

# Module names that may repeat: a layer's part of a subject is named for the subject.
MIRRORS = {
    *("__init__", "__main__", "console", "database", "demo", "deploy", "engine", "frames", "gates", "incidents"),
    *("instances", "leases", "messages", "oidc", "overview", "retention", "runbook", "scaffold", "server"),
    *("session", "settings", "stalls", "task_profiles", "waits", "worker"),
}

ODD = re.compile(
    r"\b(?:nobody|somebody|everybody|anybody|whoever|whomever|whichever|whatever|elsewhere|somewhere"
    r"|is none|are none|those who|in hand|at once|begun|begins|began|told|tells|telling|hears?|heard"
    r"|says|saying|stands?|stood|lies|lay|mends?|mended|believed?|vouch(?:es)?|patience|comes? round)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z']*")
# The line above a query's comment is its name, which is no prose.
SQL_COMMENT = re.compile(r"--(?! name:)(.*)")
CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
PARTICIPLE = re.compile(
    r"^_?(?:told|shown|written|begun|known|drawn|spoken|taken|given|kept|made|done|seen|found|sent|read_from"
    r"|\w*[^e]ed)$"
)
# Words that end as participles do and are none.
NO_PARTICIPLES = {"feed", "seed", "need", "speed", "embed", "exceed", "proceed"}
# A boolean reads as a fact: is_expired, has_ended.
FACT = re.compile(r"^_?(?:is|has|was)_")
ING = re.compile(r"^_?[a-z]+ing$")
# Nouns and imperatives that end as such names do.
NO_ING = {"bring", "ring", "ping", "string", "mapping", "finding", "anything", "nothing"}
# A rule of the linter has the name of the fact it reports, which users write: flag-undeclared.
RULES = {"rule", "forbid", "refuse"}


@dataclass(frozen=True, slots=True)
class Module:
    """One source file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return str(self.path.relative_to(ROOT))

    def prose(self) -> Iterator[str]:
        """Its docstrings and comments."""
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string.lstrip("# ")


def modules() -> list[Module]:
    """Every tracked module of the product."""
    listed = _tracked(*(f"{package}/**/*.py" for package in PACKAGES))
    return [Module(ROOT / name, (ROOT / name).read_text()) for name in listed]


def main() -> int:
    """Print every figure and return 1 when a limit is exceeded."""
    found = modules()
    prose = {"docstrings and comments": [text for module in found for text in module.prose()], **_texts()}
    faults = [*_sizes(found), *_folders(found), *_homonyms(found), *_participles(found), *_odd_words(prose)]
    for package, lines in sorted(_lines(found).items()):
        sys.stdout.write(f"{lines:7,} lines  {package}\n")
    for fault in faults:
        sys.stderr.write(f"shape: {fault}\n")
    return 1 if faults else 0


def _lines(found: list[Module]) -> Counter[str]:
    lines: Counter[str] = Counter()
    for module in found:
        parts = module.path.relative_to(ROOT).parts
        depth = 2 if parts[0] == "verbworker" else 3
        lines["/".join(parts[: min(depth, len(parts) - 1)])] += module.text.count("\n")
    return lines


def _sizes(found: list[Module]) -> Iterator[str]:
    for module in found:
        length = module.text.count("\n")
        if length > MOST_LINES:
            yield f"{module.name} has {length} lines, at most {MOST_LINES}"
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                long = (node.end_lineno or 0) - node.lineno + 1
                if long > MOST_FUNCTION_LINES:
                    yield f"{module.name}: {node.name} has {long} lines, at most {MOST_FUNCTION_LINES}"


def _folders(found: list[Module]) -> Iterator[str]:
    folders = Counter(str(module.path.parent.relative_to(ROOT)) for module in found if module.path.stem != "__init__")
    largest = max(folders.items(), key=lambda item: item[1])
    sys.stdout.write(f"{len(folders)} folders, the largest is {largest[0]} with {largest[1]} modules\n")
    for folder, count in sorted(folders.items()):
        if count > MOST_MODULES:
            yield f"{folder} has {count} modules, at most {MOST_MODULES}"


def _homonyms(found: list[Module]) -> Iterator[str]:
    classes: dict[str, list[str]] = defaultdict(list)
    names: dict[str, list[str]] = defaultdict(list)
    for module in found:
        names[module.path.stem].append(module.name)
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(module.name)
    twice = {name: places for name, places in classes.items() if len(places) > 1}
    sys.stdout.write(f"{len(twice)} class names exist more than once\n")
    if len(twice) > MOST_CLASS_HOMONYMS:
        listed = ", ".join(sorted(twice))
        yield f"{len(twice)} class names exist more than once, at most {MOST_CLASS_HOMONYMS}: {listed}"
    for name, places in sorted(names.items()):
        if len(places) > 1 and name not in MIRRORS:
            yield f"the module name {name} stands for {', '.join(places)}"


def _texts() -> dict[str, list[str]]:
    """The prose beside the modules: comments of queries as one group, each page as its own."""
    queries = sorted((ROOT / "sql" / "queries").glob("*.sql"))
    comments = [comment for path in queries for comment in SQL_COMMENT.findall(path.read_text())]
    return {
        "sql/queries": comments,
        **{page: [CODE_BLOCK.sub("", (ROOT / page).read_text())] for page in _tracked(*PAGES)},
    }


def _tracked(*patterns: str) -> list[str]:
    """The tracked files that match, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *(f":(glob){pattern}" for pattern in patterns), QUOTED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [name for name in listed if (ROOT / name).exists()]


def _odd_words(prose: dict[str, list[str]]) -> Iterator[str]:
    for group, texts in prose.items():
        text = " ".join(texts)
        words = len(WORD.findall(text))
        found = Counter(word.lower() for word in ODD.findall(text))
        density = found.total() * 1000 / max(words, 1)
        common = ", ".join(f"{word} {count}" for word, count in found.most_common(8))
        sys.stdout.write(f"{words:6,} words, {density:4.1f} odd ones per 1,000 in {group}: {common or 'none'}\n")
        if density > MOST_ODD_WORDS:
            yield f"{density:.1f} odd words per 1,000 in {group}, at most {MOST_ODD_WORDS}: {common}"


def _participles(found: list[Module]) -> Iterator[str]:
    participles = [
        node.name
        for module in found
        for node in ast.walk(ast.parse(module.text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _is_participle(node.name)
        and not any(isinstance(call, ast.Call) and ast.unparse(call.func) in RULES for call in node.decorator_list)
    ]
    sys.stdout.write(f"{len(participles)} functions are named by a participle\n")
    gerunds = sum(
        ING.match(node.name) is not None and node.name.strip("_") not in NO_ING
        for module in found
        for node in ast.walk(ast.parse(module.text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    sys.stdout.write(f"{gerunds} functions are named by a word in -ing\n")
    if gerunds > MOST_ING_FUNCTIONS:
        yield f"{gerunds} functions are named by a word in -ing, at most {MOST_ING_FUNCTIONS}"
    if len(participles) > MOST_PARTICIPLES:
        yield f"{len(participles)} functions are named by a participle, at most {MOST_PARTICIPLES}"


def _is_participle(name: str) -> bool:
    is_fact = FACT.match(name) is not None
    return PARTICIPLE.match(name) is not None and not is_fact and name.strip("_") not in NO_PARTICIPLES


def run() -> int:
    """Measure; a reader of the figures that went away (`| head`) has read enough."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(run())
