"""Sound files of every kind, made with PyAV from the sample clip; the clip itself is read by libsndfile."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import soundfile

from resources import sample

RATE = 16_000
SAMPLE = sample("jfk.flac")
SPOKEN = (
    "And so, my fellow Americans, ask not what your country can do for you, "
    "ask what you can do for your country."
)


def clip() -> np.ndarray:
    """The sample clip, 11.0 s, 16 kHz mono float32."""
    samples, rate = soundfile.read(SAMPLE, dtype="float32")
    assert rate == RATE
    return samples


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE, subtype: str = "PCM_16") -> Path:
    """A wav of those samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype=subtype, format="WAV")
    return path


def encode(
    path: Path, samples: np.ndarray, codec: str, *, rate: int = 44_100, layout: str = "stereo", container: str
) -> Path:
    """The samples (16 kHz mono) in any container and codec."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate)
        stream.layout = layout
        accepted = stream.codec_context.codec.audio_formats
        resampler = av.AudioResampler(
            format=accepted[0].name if accepted else "s16", layout=layout, rate=rate
        )
        frame = av.AudioFrame.from_ndarray((samples * 32767).astype(np.int16)[None], "s16", "mono")
        frame.sample_rate = RATE
        fifo = av.AudioFifo()
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            piece.pts = None
            fifo.write(piece)
        # Raw codecs would put everything into one packet.
        for piece in fifo.read_many(1024, partial=True):
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    return path


def video_only(path: Path) -> Path:
    """Half a second of moving grey without a sound track."""
    with av.open(str(path), "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for shade in range(12):
            picture = np.full((48, 64, 3), shade * 20, np.uint8)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode(None))
    return path


def damage(path: Path, share: float = 1 / 3, size: int = 600) -> Path:
    """Overwrite `size` bytes at `share` of the file with noise."""
    content = bytearray(path.read_bytes())
    start = int(len(content) * share)
    content[start : start + size] = np.random.default_rng(7).bytes(size)
    path.write_bytes(content)
    return path
