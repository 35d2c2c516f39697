"""A Dockerfile as it is written: there is no Docker here, so its text is what can be examined."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

Instruction = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """One Dockerfile, and the file beside it that says what reaches the build."""

    file: Path

    @property
    def instructions(self) -> list[Instruction]:
        """Every instruction as (name, rest), continued lines joined and comments left out."""
        joined = re.sub(r"\\\n\s*", "", "\n".join(_lines(self.file)))
        return [(words[0], words[1]) for line in joined.splitlines() if (words := line.split(maxsplit=1))]

    @property
    def stages(self) -> list[list[Instruction]]:
        """The instructions of each stage."""
        found: list[list[Instruction]] = []
        for instruction in self.instructions:
            if instruction[0] == "FROM":
                found.append([])
            found[-1].append(instruction)
        return found

    def last(self, name: str) -> str:
        """What the image says last by an instruction."""
        return [rest for instruction, rest in self.stages[-1] if instruction == name][-1]

    @property
    def copies(self) -> list[tuple[str, str]]:
        """What is copied from the folder that is built in, each source with its target."""
        words = [shlex.split(rest) for name, rest in self.instructions if name == "COPY"]
        given = [one for one in words if not one[0].startswith("--from")]
        return [(source, one[-1]) for one in given for source in one[:-1]]

    @property
    def ignored(self) -> list[str]:
        """The patterns of what does not reach the build."""
        own = self.file.with_name(f"{self.file.name}.dockerignore")
        return _lines(own if own.exists() else self.file.with_name(".dockerignore"))

    @property
    def kept(self) -> set[str]:
        """What does reach it."""
        return {line[1:] for line in self.ignored if line.startswith("!")}


def _lines(file: Path) -> list[str]:
    lines = file.read_text().splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
