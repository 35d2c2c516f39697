"""What mkdocs calls while it builds: adds the generated files to those of the folder."""

from typing import Any

from mkdocs.structure.files import File, Files

from docs.generate.pages import generated_files


def on_files(files: Files, config: Any) -> Files:
    """Add every generated file, in the place of the short page that the repository has instead."""
    for path, text in generated_files().items():
        if (short := files.get_file_from_path(path)) is not None:
            files.remove(short)
        files.append(File.generated(config, path, content=text))
    return files
