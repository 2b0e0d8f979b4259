"""JPEG pictures, by Pillow, which the extra `data` installs."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.errors import DataError


def decode_picture(place: Path, content: bytes) -> npt.NDArray[np.uint8]:
    """Red, green and blue [height, width, 3] of a JPEG that was read at `place`."""
    try:
        from PIL import Image, UnidentifiedImageError  # only some datasets need it
    except ImportError as error:
        raise DataError(
            f"{place} is read with Pillow, which is not installed: pip install pillow"
        ) from error
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as picture:
            return np.asarray(picture.convert("RGB"))
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise DataError(f"{place} is damaged: {error}") from error
