"""Pictures as people drop them: upright, bounded, and refused in one sentence."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from runtime import images
from runtime.errors import ImageError

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quarters() -> Image.Image:
    """40 x 20: red, green over blue, white: no two orientations look alike."""
    image = Image.new("RGB", (40, 20))
    for colour, corner in ((RED, (0, 0)), (GREEN, (20, 0)), (BLUE, (0, 10)), (WHITE, (20, 10))):
        image.paste(colour, (*corner, corner[0] + 20, corner[1] + 10))
    return image


def corners(picture: Image.Image) -> list[tuple[int, ...]]:
    """The four corner colours, clockwise from the top left, rounded to full channels."""
    right, bottom = picture.width - 3, picture.height - 3
    spots = ((2, 2), (right, 2), (right, bottom), (2, bottom))
    return [tuple(255 if channel > 127 else 0 for channel in picture.getpixel(spot)) for spot in spots]


def png(width: int, height: int, row: bytes, colour_type: int = 2, rows: int | None = None) -> bytes:
    """A PNG written by hand, row by row; `rows` below `height` makes a bomb or a cut file."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(b"\0" + row) for _ in range(height if rows is None else rows))
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", data + packer.flush()),
            chunk(b"IEND", b""),
        )
    )


# -- upright -------------------------------------------------------------------------------------

UPRIGHT = {
    1: [RED, GREEN, WHITE, BLUE],
    2: [GREEN, RED, BLUE, WHITE],
    3: [WHITE, BLUE, RED, GREEN],
    4: [BLUE, WHITE, GREEN, RED],
    5: [RED, BLUE, WHITE, GREEN],
    6: [BLUE, RED, GREEN, WHITE],
    7: [WHITE, GREEN, RED, BLUE],
    8: [GREEN, WHITE, BLUE, RED],
}
"""By EXIF's definition of each value: where the stored corners are to be seen."""


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_honoured(tmp_path: Path, orientation: int, suffix: str) -> None:
    path = tmp_path / f"photo.{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    lossless = {"lossless": True} if suffix == "webp" else {}
    quarters().save(path, exif=exif, **lossless)
    picture = images.load_for_model(path)
    assert picture.size == ((40, 20) if orientation <= 4 else (20, 40))
    assert corners(picture) == UPRIGHT[orientation]
    facts = images.thumbnail(path, 10)
    assert (facts.source_width, facts.source_height) == picture.size
    assert (facts.width, facts.height) == ((10, 5) if orientation <= 4 else (5, 10))


@pytest.mark.parametrize("value", [0, 9, 77])
def test_a_nonsense_orientation_counts_as_upright(tmp_path: Path, value: int) -> None:
    path = tmp_path / "photo.png"
    exif = Image.Exif()
    exif[0x0112] = value
    quarters().save(path, exif=exif)
    assert corners(images.load_for_model(path)) == UPRIGHT[1]


# -- every mode becomes RGB on white ----------------------------------------------------------------


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    path = tmp_path / "logo.png"
    image = Image.new("RGBA", (4, 2), (255, 0, 0, 128))
    image.paste((0, 0, 0, 0), (0, 0, 2, 2))
    image.save(path)
    picture = images.load_for_model(path)
    assert picture.mode == "RGB"
    assert picture.getpixel((0, 0)) == WHITE
    assert picture.getpixel((3, 0)) == (255, 127, 127)


def test_a_transparent_palette_entry_lies_on_white(tmp_path: Path) -> None:
    path = tmp_path / "icon.gif"
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 0, 0, 255])
    image.paste(0, (0, 0, 2, 4))
    image.save(path, transparency=0)
    picture = images.load_for_model(path)
    assert [picture.getpixel((x, 0)) for x in (0, 3)] == [WHITE, BLUE]


def test_shrinking_does_not_bleed_hidden_colours(tmp_path: Path) -> None:
    path = tmp_path / "glow.png"
    pixels = np.zeros((64, 64, 4), np.uint8)
    pixels[:, ::2] = (255, 0, 0, 255)  # the columns between are transparent black
    Image.fromarray(pixels).save(path)
    assert images.load_for_model(path, 32).getpixel((16, 16)) == pytest.approx((255, 127, 127), abs=2)


def test_cmyk_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "print.jpg"
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=95)
    red, green, blue = images.load_for_model(path).getpixel((8, 8))
    assert red > 240
    assert max(green, blue) < 16


@pytest.mark.parametrize(
    ("name", "pixels", "expected"),
    [
        ("scan.png", np.array([[0, 32768, 65535]], np.uint16), (0, 128, 255)),
        ("scan.tiff", np.array([[0, 32768, 65535]], np.uint16), (0, 128, 255)),
        ("depth.tiff", np.array([[0, 500_000, 1_000_000]], np.int32), (0, 128, 255)),
        ("unit.tiff", np.array([[0.0, 0.5, 1.0]], np.float32), (0, 128, 255)),
        ("signed.tiff", np.array([[-3.0, 0.0, 3.0]], np.float32), (0, 128, 255)),
    ],
)
def test_more_than_8_bits_are_scaled(
    tmp_path: Path, name: str, pixels: np.ndarray, expected: tuple[int, ...]
) -> None:
    path = tmp_path / name
    Image.fromarray(pixels).save(path)
    picture = images.load_for_model(path)
    assert tuple(picture.getpixel((x, 0))[0] for x in range(3)) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_common_mode_gives_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "picture.png"
    quarters().convert(mode).save(path)
    picture = images.load_for_model(path)
    assert (picture.mode, picture.size) == ("RGB", (40, 20))


@pytest.mark.parametrize("name", ["spin.gif", "spin.webp", "spin.png"])
def test_an_animation_gives_its_first_frame(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    options = {"lossless": True} if name.endswith("webp") else {}
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=50, **options)
    assert images.load_for_model(path).getpixel((4, 4)) == RED


# -- bounded -----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(1, 900), height=st.integers(1, 900), longest=st.integers(16, 400))
def test_the_result_fits_and_keeps_its_shape(tmp_path: Path, width: int, height: int, longest: int) -> None:
    path = tmp_path / "any.png"
    Image.new("L", (width, height), 200).save(path, compress_level=0)
    picture = images.thumbnail(path, longest)
    assert max(picture.width, picture.height) == min(longest, max(width, height))
    assert len(picture.rgb) == picture.width * picture.height * 3
    assert set(picture.rgb) <= {198, 199, 200}, "fixed-point averaging may lose two steps"
    scale = max(picture.width, picture.height) / max(width, height)
    assert abs(picture.width - width * scale) <= 1
    assert abs(picture.height - height * scale) <= 1


def test_a_thin_strip_keeps_a_pixel_of_width(tmp_path: Path) -> None:
    path = tmp_path / "strip.png"
    path.write_bytes(png(1, 20_000, b"\xff\0\0"))
    picture = images.load_for_model(path, 1000)
    assert picture.size == (1, 1000)
    assert picture.getpixel((0, 500)) == RED


PEAK = """
import sys
from runtime import images
picture = images.thumbnail(sys.argv[1], 512)
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(picture.width, picture.height, int(peak) // 1024)
"""
# Not getrusage(): its peak survives exec, so it is the test runner's own where that is larger.


@pytest.mark.parametrize("colour_type", [2, 6], ids=["rgb", "rgba"])
def test_a_108_megapixel_picture_stays_within_memory(tmp_path: Path, colour_type: int) -> None:
    path = tmp_path / "poster.png"
    row = b"\x10\x20\x30\xff"[: 3 if colour_type == 2 else 4] * 12_000
    path.write_bytes(png(12_000, 9_000, row, colour_type))
    run = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    width, height, peak = (int(value) for value in run.stdout.split())
    assert (width, height) == (512, 384)
    assert peak < 640, "the decoded picture is 412 MiB; nothing as large may exist beside it"


@pytest.mark.parametrize(
    ("width", "height", "words"),
    [(20_000, 15_000, "300 megapixels"), (15_000, 15_000, "858 MiB"), (2**31 - 1, 2**31 - 1, "megapixels")],
)
def test_a_bomb_is_refused_by_its_header(tmp_path: Path, width: int, height: int, words: str) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png(width, height, b"\0" * 99, rows=1))
    with pytest.raises(ImageError, match=r"bomb\.png") as caught:
        images.thumbnail(path, 100)
    assert words in caught.value.summary
    assert "limit" in caught.value.summary or "up to 250 megapixels" in caught.value.summary
    assert caught.value.remedy


def test_a_webp_bomb_is_refused_before_its_canvas_is_made(tmp_path: Path) -> None:
    path = tmp_path / "bomb.webp"
    small = io.BytesIO()
    Image.new("RGBA", (8, 8), (1, 2, 3, 4)).save(small, "webp", lossless=True, exif=Image.Exif())
    body = struct.pack("<4sI4s3s3s", b"VP8X", 10, b"\x10\0\0\0", b"\xff\x3f\0", b"\xff\x3f\0")
    rest = small.getvalue()[12:]
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(body) + len(rest)) + b"WEBP" + body + rest)
    with pytest.raises(ImageError, match="16384 x 16384"):
        images.thumbnail(path, 100)


def test_a_large_photograph_is_decoded_at_reduced_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (4000, 3000), RED).save(path)
    monkeypatch.setattr(images, "MAX_DECODE_BYTES", 4_000_000)
    assert images.thumbnail(path, 256).width == 256


def test_pictures_can_be_decoded_from_several_threads(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    quarters().save(path)
    results: list[tuple[int, int]] = []
    threads = [
        threading.Thread(target=lambda: results.append(images.load_for_model(path).size)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [(40, 20)] * 4


# -- refused -----------------------------------------------------------------------------------------


def _cut(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        whole = io.BytesIO()
        noise = np.random.default_rng(7).integers(0, 255, (64, 64, 3), np.uint8)
        Image.fromarray(noise).save(whole, name)
        path.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])

    return write


def _tiff_with_too_many_samples(path: Path) -> None:
    """Pillow logs this one as an error before it raises; nothing of that may reach the user."""
    whole = io.BytesIO()
    quarters().save(whole, "tiff")
    tag = struct.pack("<HHI", 277, 3, 1)  # SamplesPerPixel, one short
    assert tag in whole.getvalue()
    path.write_bytes(whole.getvalue().replace(tag + b"\3\0", tag + b"\xee\xa4"))


def _bytes(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty.png": (_bytes(b""), "empty"),
    "cut.jpg": (_cut("jpeg"), "damaged or incomplete JPEG"),
    "cut.png": (_cut("png"), "damaged or incomplete PNG"),
    "cut.webp": (_cut("webp"), "damaged or incomplete WebP"),
    "cut.tiff": (_cut("tiff"), "damaged or incomplete TIFF"),
    "samples.tiff": (_tiff_with_too_many_samples, "damaged or incomplete TIFF"),
    "cut.bmp": (_cut("bmp"), "damaged or incomplete BMP"),
    "signature.png": (_bytes(b"\x89PNG\r\n\x1a\n"), "damaged or incomplete PNG"),
    "letter.png": (_bytes("Dear all, pâté\n".encode("latin-1")), "a text file"),
    "notes.png": (_bytes(b"just some words\n"), "a text file"),
    "drawing.svg": (_bytes(b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'), "an SVG"),
    "drawing.png": (_bytes(b"\n<svg width='9'/>"), "an SVG"),
    "photo.heic": (_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 40), "an HEIC"),
    "photo.jpg": (_bytes(b"\0\0\0\x18ftypmif1" + b"\0" * 40), "an HEIC"),
    "photo.avif": (_bytes(b"\0\0\0\x18ftypavif" + b"\0" * 40), "an AVIF"),
    "clip.png": (_bytes(b"\0\0\0\x18ftypisom" + b"\0" * 40), "a video"),
    "paper.pdf": (_bytes(b"%PDF-1.7\n%\xe2\xe3"), "a PDF"),
    "noise.jpg": (_bytes(bytes(range(256))), "not a picture"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_usable_picture_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    write, words = REFUSED[name]
    path = tmp_path / name
    write(path)
    with pytest.raises(ImageError) as caught:
        images.load_for_model(path)
    assert caught.value.summary.startswith(name)
    assert words in caught.value.summary
    assert caught.value.remedy
    assert "\n" not in caught.value.info.sentence()


@pytest.mark.parametrize("name", ["photo.png", "photo", "photo.txt", "사진 é 🚀.heic"])
def test_a_picture_is_known_by_its_content_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    quarters().save(path, "jpeg", quality=95)
    assert images.thumbnail(path, 100).kind == "JPEG"


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    for path in (tmp_path / "gone.png", tmp_path, pipe):
        with pytest.raises(ImageError, match=path.name):
            images.load_for_model(path)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.bmp"
    path.write_bytes(b"BM")
    os.truncate(path, images.MAX_FILE_BYTES + 1)
    with pytest.raises(ImageError, match="up to 256 MiB"):
        images.load_for_model(path)


def _samples() -> list[bytes]:
    samples = []
    for kind in ("png", "jpeg", "webp", "gif", "bmp", "tiff"):
        whole = io.BytesIO()
        quarters().save(whole, kind)
        samples.append(whole.getvalue())
    return samples


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sample=st.sampled_from(_samples()),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=8)), max_size=6),
    keep=st.floats(0, 1),
)
def test_damage_ends_in_a_picture_or_an_image_error(
    tmp_path: Path, sample: bytes, edits: list[tuple[int, bytes]], keep: float
) -> None:
    data = bytearray(sample)
    for position, patch in edits:
        start = position % len(data)
        data[start : start + len(patch)] = patch
    path = tmp_path / "fuzzed.bin"
    path.write_bytes(bytes(data[: max(1, int(len(data) * keep))]))
    try:
        picture = images.thumbnail(path, 64)
    except ImageError as refusal:
        said = refusal.summary
    else:
        said = f"fuzzed.bin is {picture.kind}"
        assert len(picture.rgb) == picture.width * picture.height * 3
    assert said.startswith("fuzzed.bin is ")
