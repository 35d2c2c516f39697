"""Draw files: which model goes into which SVG, and what could not be drawn."""

import os
import sys
from collections.abc import Iterator, Sequence

from verblint.bpmn.reader import Limits, ModelError, read
from verblint.draw.picture import draw
from verblint.fixes.write import write_whole
from verblint.linter import read_file
from verblint.paths import SUFFIX
from verblint.report import Problem

_STDIN = "-"
_SVG = ".svg"


def draw_files(files: Sequence[str], output: str, limits: Limits, theme: str) -> tuple[list[str], list[Problem]]:
    """Draw models into a file or folder; without one, return the SVG of the only model. Also return what failed."""
    if len(files) > 1 and not output:
        return [], [Problem("", "several models need a folder: name it with -o")]
    if len(files) > 1 and os.path.exists(output) and not os.path.isdir(output):
        return [], [Problem(output, "not a folder, and there are several models")]
    texts, problems = [], []
    for path, target in zip(files, _targets(files, output), strict=True):
        try:
            svg = _draw(path, limits, theme)
            if target:
                os.makedirs(os.path.dirname(target) or os.curdir, exist_ok=True)
                write_whole(target, svg.encode())
            else:
                texts.append(svg)
        except ModelError as error:
            problems.append(Problem(f"{path}:{error.line}:{error.column}", error.message))
        except (OSError, ValueError) as error:
            where = getattr(error, "filename", None) or path
            problems.append(Problem(str(where), getattr(error, "strerror", None) or str(error)))
    return texts, problems


def _draw(path: str, limits: Limits, theme: str) -> str:
    content = sys.stdin.buffer.read(limits.size + 1) if path == _STDIN else read_file(path, limits.size + 1)
    root = read(content, path, limits)
    try:
        return draw(root, theme=theme).svg
    finally:
        root.document.take_apart()


def _targets(files: Sequence[str], output: str) -> Iterator[str]:
    """Yield the file for each model. In a folder, models keep their place below the folder they have in common."""
    if not output or (len(files) == 1 and not os.path.isdir(output)):
        yield from [output] * len(files)
        return
    folders = [os.path.dirname(os.path.abspath(path)) for path in files if path != _STDIN]
    common = os.path.commonpath(folders) if folders else ""
    for path in files:
        name = "stdin" if path == _STDIN else os.path.relpath(os.path.abspath(path), common)
        yield os.path.join(output, name.removesuffix(SUFFIX) + _SVG)
