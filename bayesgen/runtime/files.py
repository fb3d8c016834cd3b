"""Files that appear under their names when they are complete."""

import os
from pathlib import Path
from uuid import uuid4


def write_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file aside and move it to its name, so that it is there whole, or as it was before.

    Raises:
        OSError: it cannot be written, as where the disk is full. The file aside is removed.
    """
    aside = path.with_name(f".{uuid4().hex}")
    try:
        aside.write_bytes(content)
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        aside.unlink(missing_ok=True)
