"""Any audio or video file as a stream of mono blocks, with what was wrong with it in words.

FFmpeg gives up a whole file at its first damaged packet; here each packet is tried by itself, a damaged one
is counted, and what is missing is replaced by silence, so that the times after it stay right to 0.1 s.
Memory does not grow with the length of the file.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from runtime.audio.pcm import SAMPLE_RATE, Samples, to_float, to_mono
from runtime.audio.times import clock
from runtime.errors import AudioError

BLOCK_SECONDS = 1.0
_TOLERATED_GAP = 0.1
"""Seconds of drift between the container's clock and the samples that are not worth a correction."""
_LARGEST_GAP = 600.0
"""Seconds; a larger jump of the container's clock is a broken clock, not missing sound."""
_READ_ERRORS_IN_A_ROW = 50

# Playlists and the like are not here: they would have FFmpeg open other files and addresses.
_CONTAINERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,loas,matroska,webm,mov,mp4,"
    "m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,nut,ogg,rm,sbc,shn,spx,tak,tta,voc,w64,wav,wv"
)
# These say how long they last by their bit rate only.
_GUESSED_DURATION = frozenset({"aac", "ac3", "eac3", "mp3", "dts", "mpeg", "mpegts", "loas", "amr", "sbc"})


def _refuse(path: Path, what: str, remedy: str, detail: str = "") -> AudioError:
    return AudioError(
        f"{path.name}: {what}", remedy=remedy, unharmed="The file was not changed.", detail=detail
    )


def _check_readable(path: Path) -> None:
    """Say in words what FFmpeg would say in numbers."""
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):  # opening a pipe would wait
            with path.open("rb"):
                pass
    except FileNotFoundError:
        raise _refuse(path, "there is no such file.", "Check where it is now.", str(path)) from None
    except IsADirectoryError:
        raise _refuse(path, "this is a folder.", "Choose the files in it.", str(path)) from None
    except OSError as error:
        what = f"the file cannot be read ({error.strerror})."
        raise _refuse(path, what, "Check its permissions.", str(error)) from None
    if not stat.S_ISREG(status.st_mode):
        raise _refuse(path, "this is not a file.", "Choose an audio or video file.", str(path))
    if status.st_size == 0:
        raise _refuse(path, "the file is empty (0 bytes).", "Copy or record it again.")


class _Resampler:
    """Mono samples of any rate in, of one rate out; the rate may change in the middle of the stream."""

    def __init__(self, target: int) -> None:
        self.seconds = 0.0
        """Where the next sample belongs, in seconds from the start of the file."""
        self._target = target
        self._rate = 0
        self._stream: Any = None

    def feed(self, mono: Samples, rate: int) -> list[Samples]:
        """The samples resampled, plus what an earlier rate still held."""
        out: list[Samples] = []
        if rate != self._rate:
            out.append(self.drain())
            self._begin(rate)
        self.seconds += len(mono) / rate
        out.append(mono if self._stream is None else self._stream.resample_chunk(mono))
        return out

    def drain(self) -> Samples:
        """The last samples of the current rate."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        rest: Samples = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        self._stream, self._rate = None, 0
        return rest

    def _begin(self, rate: int) -> None:
        import soxr

        self._rate = rate
        self._stream = None if rate == self._target else soxr.ResampleStream(rate, self._target, 1)


def _mono(frame: Any) -> Samples:
    """A decoded frame mixed to one channel, at its own rate."""
    raw = frame.to_ndarray()
    if not frame.format.is_planar:
        raw = raw.reshape(-1, frame.layout.nb_channels).T
    return to_mono(to_float(raw), tuple(channel.name for channel in frame.layout.channels))


class AudioFile:
    """One file, opened for reading once from start to end.

    `duration` is what the container says, in seconds, or None. Raises AudioError when it holds no sound.
    """

    def __init__(self, path: Path, rate: int = SAMPLE_RATE) -> None:
        self.path = path
        self.rate = rate
        """Samples per second of the blocks."""
        self.position = 0.0
        """Where the next block begins, in seconds; after the last block, the real duration."""
        _check_readable(path)
        self._container = self._open()
        self._stream = self._find_sound()
        self.duration = self._declared_duration()
        self._start = (self._container.start_time or 0) / 1_000_000
        self._resampler = _Resampler(rate)
        self._bad_packets: list[float] = []
        self._notes: list[str] = []
        self._seeking = False

    def __enter__(self) -> AudioFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self._container.close()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was wrong with the file so far, in words."""
        return (*self._damage(), *self._notes)

    def seek(self, seconds: float) -> None:
        """Begin near that time; the container decides how near. Only before the first block."""
        import av

        with contextlib.suppress(av.error.FFmpegError):
            self._container.seek(int((self._start + seconds) * 1_000_000))
            self._seeking = True

    def blocks(self) -> Iterator[Samples]:
        """Blocks of BLOCK_SECONDS (the last one shorter). Raises AudioError when nothing can be decoded."""
        wanted = int(BLOCK_SECONDS * self.rate)
        held: list[Samples] = []
        size = 0
        for piece in self._pieces():
            held.append(piece)
            size += len(piece)
            if size < wanted:
                continue
            joined = np.concatenate(held)
            whole = size - size % wanted
            for start in range(0, whole, wanted):
                yield self._hand_out(joined[start : start + wanted])
            held, size = [joined[whole:]], size - whole
        if size:
            yield self._hand_out(np.concatenate(held))
        self._check_result()

    def _hand_out(self, block: Samples) -> Samples:
        self.position += len(block) / self.rate
        return block

    def _open(self) -> Any:
        import av

        try:
            # An absolute path cannot be taken for an address.
            return av.open(
                str(self.path.absolute()),
                options={"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"},
            )
        except (av.error.FFmpegError, ValueError) as error:
            raise _refuse(
                self.path,
                "this is not an audio or video file that can be read.",
                "Convert it to wav, flac, mp3, m4a or ogg, or copy it again if it should play.",
                f"{type(error).__name__}: {error}",
            ) from None

    def _find_sound(self) -> Any:
        stream = self._container.streams.best("audio")
        if stream is None:
            self._container.close()
            raise _refuse(
                self.path, "there is no audio track in it.", "Choose a file with sound.", self._describe()
            )
        return stream

    def _describe(self) -> str:
        return f"{self._container.format.long_name}: " + ", ".join(
            stream.type for stream in self._container.streams
        )

    def _declared_duration(self) -> float | None:
        ticks = self._container.duration
        return ticks / 1_000_000 if ticks and ticks > 0 else None

    def _pieces(self) -> Iterator[Samples]:
        for packet in self._packets():
            for frame in self._decode(packet):
                yield from self._convert(frame)
        yield self._resampler.drain()

    def _packets(self) -> Iterator[Any]:
        """Every packet of the sound track; a read error is skipped, many in a row end the file."""
        import av

        errors = 0
        while errors < _READ_ERRORS_IN_A_ROW:
            try:
                for packet in self._container.demux(self._stream):
                    errors = 0
                    yield packet
                return
            except (av.error.FFmpegError, OSError, IndexError):  # the last for tracks that come up on the way
                errors += 1
                self._bad_packets.append(self._resampler.seconds)
        self._notes.append(f"The file cannot be read beyond {clock(self._resampler.seconds)}.")

    def _decode(self, packet: Any) -> list[Any]:
        import av

        try:
            return list(packet.decode())
        except (av.error.FFmpegError, ValueError):
            self._bad_packets.append(self._resampler.seconds)
            return []

    def _convert(self, frame: Any) -> list[Samples]:
        rate = frame.sample_rate
        if rate <= 0:
            self._bad_packets.append(self._resampler.seconds)
            return []
        if self._seeking and frame.time is not None:
            self._seeking = False
            self.position = self._resampler.seconds = max(0.0, frame.time - self._start)
        missing = np.zeros(int(self._gap_before(frame) * rate), np.float32)
        return [*self._resampler.feed(missing, rate), *self._resampler.feed(_mono(frame), rate)]

    def _gap_before(self, frame: Any) -> float:
        """Seconds of sound the container's clock says are missing before the frame."""
        if frame.time is None:
            return 0.0
        gap: float = frame.time - self._start - self._resampler.seconds
        if abs(gap) > _LARGEST_GAP:
            self._start += gap
            return 0.0
        return gap if gap > _TOLERATED_GAP else 0.0

    def _damage(self) -> tuple[str, ...]:
        count = len(self._bad_packets)
        if count == 0:
            return ()
        packets = "1 damaged packet was" if count == 1 else f"{count} damaged packets were"
        first, last = clock(self._bad_packets[0]), clock(self._bad_packets[-1])
        where = f"at {first}" if first == last else f"between {first} and {last}"
        return (f"{packets} skipped {where}.",)

    def _check_result(self) -> None:
        if self.position == 0:
            raise _refuse(
                self.path,
                "no sound could be decoded from it.",
                "The file may be cut off or damaged; copy it again.",
                "; ".join((self._describe(), *self.warnings)),
            )
        declared = self.duration
        guessed = not _GUESSED_DURATION.isdisjoint(self._container.format.name.split(","))
        if declared and not guessed and self.position < declared * 0.98 - 0.5:
            self._notes.append(
                f"The file ends at {clock(self.position)} although it says it lasts {clock(declared)}."
            )
