"""Write files atomically: readers see the old content or the new, never a part."""

import os
from contextlib import suppress


def write_whole(path: str, content: bytes) -> None:
    """Replace the content of a file, keeping its permissions; a symbolic link stays a link."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        # A device or a pipe has no content to replace.
        with open(path, "wb") as file:
            file.write(content)
        return
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        with open(draft, "wb") as file:
            file.write(content)
        if os.path.exists(path):
            os.chmod(draft, os.stat(path).st_mode & 0o7777)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
