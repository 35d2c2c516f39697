"""What mkdocs calls while it builds: adds the generated files to those of the folder."""

from typing import Any

from mkdocs.structure.files import File, Files

from docs.generate.pages import generated_files


def on_files(files: Files, config: Any) -> Files:
    """Add every generated file."""
    for path, text in generated_files().items():
        files.append(File.generated(config, path, content=text))
    return files
