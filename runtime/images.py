"""Safe decoding of pictures that somebody dropped, pasted or opened.

The contract: the kind is told by the content, never by the name; the size is read before anything is
decoded; what would need more memory than `MAX_DECODE_BYTES` is refused; what comes out is upright, 8-bit RGB,
no larger than asked for. Animations give their first frame, transparency lies on white. Every refusal is one
`ImageError` that names the file. The functions may be called from any thread but the window's own; one large
picture is decoded at a time.
"""

from __future__ import annotations

import logging
import math
import stat
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from runtime.errors import ImageError
from runtime.tracing.recorder import RECORDER

MAX_FILE_BYTES: Final = 256 * 2**20
MAX_PIXELS: Final = 250_000_000
"""More than any camera makes; beyond it a header is taken for a bomb."""
MAX_DECODE_BYTES: Final = 512 * 2**20
"""Memory one decode may take; a 12 000 x 9 000 photograph needs 412 MiB."""
MODEL_SIDE: Final = 1536
"""Longest side handed to a model; its own processor scales down from there."""

READABLE: Final = ("PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF")
SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
"""For file dialogs only; what a file is, is told by its content."""

_LARGE: Final = 64 * 2**20
_STRIP_PIXELS: Final = 2_000_000
_HEAD_BYTES: Final = 512
_REMEDY: Final = f"Choose a {', '.join(READABLE[:-1])} or {READABLE[-1]} picture."
_ORIENTATION_TAG: Final = 0x0112
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What Pillow's decoders raise on damaged data; warnings too, where they are turned into errors.
_FAULTS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    OverflowError,
    AttributeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Warning,
)

# Pillow also logs what it then raises; the ImageError says it once, in words.
logging.getLogger("PIL").setLevel(logging.CRITICAL)
_one_large_decode = threading.Lock()


@dataclass(frozen=True, slots=True)
class Picture:
    """A decoded, upright picture: rows of 8-bit RGB, top to bottom, without padding."""

    width: int
    height: int
    rgb: bytes
    kind: str
    """What the file is, one of `READABLE`."""
    source_width: int
    """Width of the file's picture when upright."""
    source_height: int


def thumbnail(path: str | Path, longest: int) -> Picture:
    """The picture scaled down so that its longest side is at most `longest` pixels.

    Raises ImageError.
    """
    small, kind, source = _decode(Path(path), longest)
    return Picture(small.width, small.height, small.tobytes(), kind, *source)


def load_for_model(path: str | Path, longest: int = MODEL_SIDE) -> Image.Image:
    """The picture as RGB for a model's processor, its longest side at most `longest` pixels.

    Raises ImageError.
    """
    return _decode(Path(path), longest)[0]


# -- what the file is ----------------------------------------------------------------------------


def _webp_size(head: bytes) -> tuple[int, int]:
    """The canvas size in a WebP header, (0, 0) when it has none."""
    kind = head[12:16]
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and head[20:21] == b"\x2f":
        (bits,) = struct.unpack_from("<I", head, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return 0, 0


_OPENERS: Final[dict[str, Callable[[BinaryIO, str], ImageFile.ImageFile]]] = {
    "PNG": PngImagePlugin.PngImageFile,
    "JPEG": JpegImagePlugin.JpegImageFile,
    "WebP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
}
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
)
_FOREIGN: Final = (
    (b"%PDF", "a PDF document"),
    (b"\xff\x0a", "a JPEG XL picture"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 picture"),
    (b"8BPS", "a Photoshop document"),
    (b"PK\x03\x04", "a ZIP archive or office document"),
    (b"OggS", "a sound file"),
    (b"fLaC", "a sound file"),
    (b"ID3", "a sound file"),
)


def _sniff(head: bytes) -> str | None:
    """One of `READABLE` by the first bytes, or None."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def _foreign_kind(head: bytes) -> str:
    """What an unreadable file is, in words."""
    if head[4:8] == b"ftyp":
        brand = head[8:12]
        if brand in (b"avif", b"avis"):
            return "an AVIF picture"
        if brand in (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"):
            return "an HEIC picture"
        return "a video"
    for magic, kind in _FOREIGN:
        if head.startswith(magic):
            return kind
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<svg", b"<?xml", b"<!doctype svg")) and b"<svg" in text:
        return "an SVG drawing"
    if head and b"\0" not in head and all(byte >= 32 or byte in b"\t\r\n\f" for byte in head):
        return "a text file"
    return "not a picture that can be read here"


# -- decoding ------------------------------------------------------------------------------------


def _decode(path: Path, longest: int) -> tuple[Image.Image, str, tuple[int, int]]:
    """(upright RGB picture, kind, upright size in the file)."""
    with RECORDER.span("decode image"), _reading(path) as (file, head):
        kind = _sniff(head)
        if kind is None:
            raise ImageError(f"{path.name} is {_foreign_kind(head)}.", remedy=_REMEDY)
        try:
            return _decode_as(kind, path, file, head, longest)
        except MemoryError as error:
            raise ImageError(
                f"There is not enough memory to open {path.name}.",
                remedy="Close other programs, or choose a smaller picture.",
                detail=str(error),
            ) from error
        except _FAULTS as error:
            raise ImageError(
                f"{path.name} is a damaged or incomplete {kind} picture.",
                remedy="Copy or download it again, or choose another picture.",
                detail=f"{type(error).__name__}: {error}",
            ) from error


@contextmanager
def _reading(path: Path) -> Iterator[tuple[BinaryIO, bytes]]:
    """The open file and its first bytes; only regular files of a sane size are opened."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise ImageError(f"{path.name or path} is not a file.", remedy=_REMEDY)
        if facts.st_size == 0:
            raise ImageError(f"{path.name} is empty (0 bytes).", remedy=_REMEDY)
        if facts.st_size > MAX_FILE_BYTES:
            raise ImageError(
                f"{path.name} is {facts.st_size / 2**20:.0f} MiB; "
                f"pictures up to {MAX_FILE_BYTES // 2**20} MiB are read.",
                remedy="Save a smaller copy and use that.",
            )
        file = path.open("rb")
    except OSError as error:
        raise ImageError(
            f"{path.name or path} cannot be opened: {error.strerror or error}.",
            remedy="Check that the file is still there and may be read.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    except ValueError as error:  # a NUL in the path
        raise ImageError(
            "The path of the picture is not valid.",
            remedy="Give the file a plain name, then add it again.",
            detail=str(error),
        ) from error
    with file:
        head = file.read(_HEAD_BYTES)
        file.seek(0)
        yield file, head


def _decode_as(
    kind: str, path: Path, file: BinaryIO, head: bytes, longest: int
) -> tuple[Image.Image, str, tuple[int, int]]:
    if kind == "WebP":
        # Its decoder allocates the canvas as soon as it is opened.
        _check_size(path, _webp_size(head), 16)
    with _OPENERS[kind](file, path.name) as image:
        size = image.size
        if kind == "JPEG" and not image.info.get("progressive"):
            image.draft(None, (longest, longest))
        need = _check_size(path, size, _bytes_per_pixel(image, kind), decoded=image.size)
        with _one_large_decode if need > _LARGE else nullcontext():
            image.load()
            small = _shrink(image, longest)
            turn = _TURNS.get(_orientation(image))
    if turn is not None:
        small = small.transpose(turn)
        if turn in (_TURNS[5], _TURNS[6], _TURNS[7], _TURNS[8]):
            size = size[1], size[0]
    return small, kind, size


def _bytes_per_pixel(image: Image.Image, kind: str) -> int:
    """Memory a decode takes at its peak, by pixel."""
    if kind == "WebP":
        return 16
    if kind == "JPEG" and image.info.get("progressive"):
        return 10  # the coefficients of all scans are kept, beside the pixels
    if image.mode.startswith("I;16"):
        return 2
    return 1 if image.mode in ("1", "L", "P") else 4


def _check_size(
    path: Path, size: tuple[int, int], per_pixel: int, decoded: tuple[int, int] | None = None
) -> int:
    """Bytes the decode needs; raises ImageError when that is too much."""
    pixels = size[0] * size[1]
    words = f"{path.name} is {size[0]} x {size[1]} pixels ({pixels / 1e6:.0f} megapixels)"
    remedy = "Save a smaller copy and use that."
    if pixels > MAX_PIXELS:
        limit = MAX_PIXELS // 1_000_000
        raise ImageError(f"{words}; pictures up to {limit} megapixels are read.", remedy=remedy)
    width, height = decoded or size
    need = width * height * per_pixel
    if need > MAX_DECODE_BYTES:
        raise ImageError(
            f"{words} and would take {need / 2**20:.0f} MiB to open; "
            f"the limit is {MAX_DECODE_BYTES // 2**20} MiB.",
            remedy=remedy,
        )
    return need


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation 1..8; damaged EXIF counts as upright."""
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
    except _FAULTS:
        return 1
    return value if isinstance(value, int) else 1


def _shrink(image: Image.Image, longest: int) -> Image.Image:
    """The decoded picture as RGB with its longest side at most `longest`, strip by strip.

    Converting strips keeps the peak at the decoded picture plus one strip, whatever the mode.
    """
    width, height = image.size
    factor = max(1, max(width, height) // longest)
    rows = max(1, _STRIP_PIXELS // width // factor) * factor
    to_rgb = _converter(image)
    result = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = to_rgb(image.crop((0, top, width, min(top + rows, height))))
        result.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    if max(result.size) > longest:
        scale = longest / max(width, height)
        target = (max(1, round(width * scale)), max(1, round(height * scale)))
        result = result.resize(target, Image.Resampling.LANCZOS)
    return result


def _converter(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """How to turn a strip of this picture into RGB on white."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        low, high = _value_range(image)
        scale = 255.0 / (high - low)

        def from_wide(strip: Image.Image) -> Image.Image:
            wide = strip if strip.mode == "F" else strip.convert("I").convert("F")
            return wide.point(lambda value: value * scale + (0.5 - low * scale)).convert("L").convert("RGB")

        return from_wide
    if image.has_transparency_data:
        return _on_white
    return lambda strip: strip.convert("RGB")


def _on_white(strip: Image.Image) -> Image.Image:
    rgba = strip.convert("RGBA")
    flat = Image.new("RGB", rgba.size, "white")
    flat.paste(rgba, mask=rgba.getchannel("A"))
    return flat


def _value_range(image: Image.Image) -> tuple[float, float]:
    """(black, white) of a picture with more than 8 bits: the format's own range where the values fit it."""
    if image.mode.startswith("I;16"):
        return 0.0, 65535.0
    low, high = image.getextrema()
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        raise ValueError("more than one channel of wide values")
    if not math.isfinite(low + high):
        raise ValueError("values that are not numbers")
    if low >= 0:
        whites = (1.0, 255.0, 65535.0) if image.mode == "F" else (65535.0,)
        return 0.0, next((white for white in whites if high <= white), float(high))
    return float(low), float(high) if high > low else float(low) + 1.0
