"""Pack users' own code into an archive, and print its digest: pack_code.py FOLDER ARCHIVE.

All Python files of the folder, or, if it is a package (with an `__init__.py`), the package. The
same files make the same bytes, so that boards that have them are left alone.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path


def files(folder: Path) -> list[Path]:
    """The Python files in a fixed order; nothing that is hidden, cached or installed."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in parts)
        if not hidden and not {"__pycache__", "site-packages"} & {*parts}:
            found.append(path)
    return found


def pack(folder: Path) -> bytes:
    """A gzipped tar of the files without times or owners."""
    start = folder.parent if (folder / "__init__.py").is_file() else folder
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files(folder):
            data = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(start).as_posix())
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def main() -> None:
    """Write the archive."""
    folder, archive = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    if not files(folder):
        sys.exit(f"{folder} has no Python files")
    archive.parent.mkdir(parents=True, exist_ok=True)
    packed = pack(folder)
    archive.write_bytes(packed)
    sys.stdout.write(hashlib.sha256(packed).hexdigest() + "\n")


if __name__ == "__main__":
    main()
