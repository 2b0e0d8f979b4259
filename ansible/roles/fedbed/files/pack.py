"""Pack a checkout into an archive that pip installs: pack.py CHECKOUT ARCHIVE.

The same files make the same bytes, so that the digest it prints tells whether code has changed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

PARTS = ("pyproject.toml", "README.md", "broker", "common", "fl_client", "fl_server")


def files(checkout: Path) -> list[Path]:
    """What the package consists of, in a fixed order, without caches."""
    found = [
        path for part in PARTS for path in (checkout / part, *(checkout / part).rglob("*"))
    ]
    return sorted(p for p in found if p.is_file() and "__pycache__" not in p.parts)


def pack(checkout: Path) -> bytes:
    """A gzipped tar of the files without times, owners or modes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files(checkout):
            data = path.read_bytes()
            entry = tarfile.TarInfo(f"fedbed/{path.relative_to(checkout).as_posix()}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def main() -> None:
    """Write the archive and print its digest."""
    checkout, archive = Path(sys.argv[1]), Path(sys.argv[2])
    data = pack(checkout)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(data)
    sys.stdout.write(hashlib.sha256(data).hexdigest() + "\n")


if __name__ == "__main__":
    main()
