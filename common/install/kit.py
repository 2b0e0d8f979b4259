"""The files that a board is installed from, in one archive: our package as a wheel, the
installer, the table of torch versions, the hashes.

The wheel is made from what is installed here, so that a kit comes from a checkout and from a
wheel alike. The same files make the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.metadata
import io
import tarfile
import zipfile
from pathlib import Path

from common import VERSION
from common.disk.atomic import write_atomic
from common.errors import UsageError

NAME = "fedbed-board"
ARCHIVE = f"{NAME}.tar.gz"
FILES = (
    "install.sh",
    "choose_torch.sh",
    "torch_versions.txt",
    "requirements-board.txt",
    "requirements-arm64.txt",
    "fl-client.service",
)
PACKAGES = ("broker", "common", "fl_client", "fl_server")
HERE = Path(__file__).parent
_WHEEL = "Wheel-Version: 1.0\nGenerator: fedbed\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_kit(folder: Path) -> Path:
    """Write the archive into a folder; where it is."""
    path = folder / ARCHIVE
    write_atomic(path, _archive({**_beside(), _wheel_name(): _wheel()}))
    return path


def what_to_type(bundle: Path, board: str) -> str:
    """How a bare machine becomes this board: one line here, two lines there."""
    beside = bundle.with_name(ARCHIVE)
    return (
        f"copy both files to the board, such as: scp {bundle} {beside} pi@{board}.local:\n"
        f"then type there:\n  tar xzf {ARCHIVE}\n  sudo sh {NAME}/install.sh {bundle.name}"
    )


def _beside() -> dict[str, bytes]:
    return {name: (HERE / name).read_bytes() for name in FILES}


def _wheel_name() -> str:
    return f"fedbed-{VERSION}-py3-none-any.whl"


def _wheel() -> bytes:
    """Our packages as they are here, with the description that pip left of them."""
    try:
        installed = importlib.metadata.distribution("fedbed")
    except importlib.metadata.PackageNotFoundError as error:
        raise UsageError("fedbed is not installed here; run: scripts/setup.sh demo") from error
    top = HERE.parents[1]
    files = {
        path.relative_to(top).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in sorted((top / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"fedbed-{VERSION}.dist-info"
    metadata = installed.read_text("METADATA") or installed.read_text("PKG-INFO")
    files[f"{info}/METADATA"] = (metadata or "").encode()
    files[f"{info}/entry_points.txt"] = (installed.read_text("entry_points.txt") or "").encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    lines = [f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = ("".join(lines) + f"{info}/RECORD,,\n").encode()
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            file.writestr(entry, data)
    return plain.getvalue()


def _hash(data: bytes) -> str:
    digest = hashlib.sha256(data).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _archive(files: dict[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{NAME}/{name}")
            entry.size = len(data)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)
