"""How the Models pane says things: sizes, devices, states, how a job goes."""

from __future__ import annotations

from runtime.messages import CatalogRow, JobProgress, ModelInfo

KIND = {"chat": "Chat", "image": "Images", "speech": "Speech", "other": "Other"}
KIND_ICON = {"chat": "chat", "image": "image", "speech": "mic", "other": "folder"}
DEVICE = {"simulated": "Simulated NPU, on the CPU", "npu": "Mobilint NPU", "cpu": "CPU, no NPU needed"}


def is_unreadable(row: CatalogRow) -> bool:
    """Whether the folder does not say what model it holds, so that nothing may be claimed about it."""
    return row.state == "partial" and not row.family and not row.download_bytes


def size(count: int) -> str:
    """Bytes for people, in the decimal units that disks are sold in."""
    if count >= 999_500_000:
        return f"{count / 1e9:.1f} GB"
    if count >= 1_000_000:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e3:.0f} kB"


def duration(seconds: float) -> str:
    """A short span for people."""
    if seconds >= 90:
        return f"{seconds / 60:.0f} min"
    return f"{max(1, round(seconds))} s"


def facts(row: CatalogRow) -> str:
    """Size, licence, family and id, each only when known."""
    if row.state == "installed":
        place = f"{size(row.disk_bytes)} on disk"
    else:
        parts = (
            f"{size(row.download_bytes)} to download" if row.download_bytes else "",
            f"{size(row.disk_bytes)} on disk" if row.disk_bytes else "",
        )
        place = ", ".join(part for part in parts if part)
    family = row.family.replace("_", "-").capitalize() + " family" if row.family else ""
    return "  ·  ".join(part for part in (place, row.licence, family, row.model_id) if part)


def install_words(row: CatalogRow) -> str:
    """What the install button says."""
    if row.state == "partial":
        return "Continue" if row.download_bytes else "Fetch again"
    return f"Install, {size(row.download_bytes)}" if row.download_bytes else "Install"


def job_title(progress: JobProgress) -> str:
    """What a job does, and with which of several files: "Downloading text.mxq, file 2 of 7"."""
    return progress.stage if progress.share is None else f"{progress.stage}, {progress.share.words}"


def job_fraction(progress: JobProgress | None) -> float | None:
    """0..1 of all files, or None while it cannot be told."""
    if progress is None:
        return None
    done, total = _of_all(progress)
    return done / total if total else None


def job_facts(progress: JobProgress) -> str:
    """Bytes of the file and of all, speed and the time left, each when known; empty without any bytes."""
    parts = []
    if progress.total and (progress.bytes_per_second or progress.share is not None):
        parts.append(f"{size(progress.done)} of {size(progress.total)}")
    if progress.share is not None and progress.share.total:
        parts.append(f"{size(progress.share.done)} of {size(progress.share.total)} in all")
    done, total = _of_all(progress)
    if progress.bytes_per_second and total:
        left = max(0, total - done) / progress.bytes_per_second
        parts += [f"{progress.bytes_per_second / 1e6:.1f} MB/s", f"{duration(left)} left"]
    return "  ·  ".join(parts)


def _of_all(progress: JobProgress) -> tuple[int, int | None]:
    """Bytes done and in all: of every file where there are several, else of the one."""
    share = progress.share
    return (progress.done, progress.total) if share is None else (share.done, share.total)


def loaded_words(info: ModelInfo) -> str:
    """Where a loaded model runs: device and layout in words."""
    from runtime.layout.outcome import say_effective

    layout = f"  ·  {say_effective(info.layout)}" if info.layout is not None else ""
    return f"Loaded on {info.device}{layout}"
