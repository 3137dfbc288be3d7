"""The vendor's models on the model hub: what there is, and bringing one here.

Only data files are taken: configuration, tokenizers, safetensors and compiled models. Code and pickles that a
repository may hold are left where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from runtime.catalog.download import Remote, download
from runtime.catalog.entries import Entry, HubSource, RemoteFile
from runtime.catalog.job import Job
from runtime.errors import DownloadError, ModelUnsupportedError, NetworkError
from runtime.messages import ModelKind

VENDOR = "mobilint"
_KIND_OF_TASK: dict[str, ModelKind] = {
    "text-generation": "chat",
    "image-text-to-text": "image",
    "image-to-text": "image",
    "automatic-speech-recognition": "speech",
}
_WANTED = re.compile(r".*\.(json|txt|jinja|model|mxq|safetensors)|LICENSE.*|tiktoken.*", re.IGNORECASE)
_TIMEOUT = 15.0


def vendor_entries() -> tuple[Entry, ...]:
    """The vendor's published chat, image and speech models; asks the hub. Raises NetworkError."""
    import httpx
    from huggingface_hub import HfApi

    entries: dict[str, Entry] = {}
    try:
        for task, kind in _KIND_OF_TASK.items():
            for model in HfApi().list_models(author=VENDOR, pipeline_tag=task, expand=["tags"]):
                entries.setdefault(model.id, _entry(model.id, kind, model.tags or ()))
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise NetworkError(
            "The model hub could not be asked for Mobilint's models.",
            unharmed="Installed models are unharmed.",
            remedy="Check the network, then refresh the list.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    return tuple(sorted(entries.values(), key=lambda entry: entry.model_id.casefold()))


def _entry(repository: str, kind: ModelKind, tags: Iterable[str]) -> Entry:
    words = dict(tag.split(":", 1) for tag in tags if ":" in tag)
    family = next((tag.removeprefix("mobilint-") for tag in tags if tag.startswith("mobilint-")), "")
    return Entry(
        model_id=repository.rpartition("/")[2],
        title=repository.rpartition("/")[2].replace("-", " "),
        kind=kind,
        family=family,
        device="npu",
        licence=words.get("license", "see its page"),
        source=HubSource(repository),
        preparation="none",
        disk_bytes=0,
        note="Compiled for a Mobilint board.",
    )


def fetch_repository(source: HubSource, folder: Path, job: Job) -> None:
    """Bring the repository's data files into `folder`, each resumed and checked.

    Raises ModelUnsupportedError when it holds no compiled model, else as `download`.
    """
    import httpx
    from huggingface_hub import HfApi, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    job.begin(f"Looking at {source.repository}")
    try:
        info = HfApi().model_info(
            source.repository, revision=source.revision, files_metadata=True, timeout=_TIMEOUT
        )
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise NetworkError(
            f"{source.repository} could not be found on the model hub.",
            unharmed="Installed models are unharmed.",
            remedy="Check the name and the network; a private model needs a login to the hub.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    files = _files(source, info.siblings or [])
    for item, own in zip(files, job.of_files([item.bytes for item in files]), strict=True):
        url = hf_hub_url(source.repository, item.path, revision=info.sha)
        remote = Remote(url, item.name, item.bytes, item.sha256, build_hf_headers())
        download(remote, folder / item.name, own)


def is_data_file(name: str) -> bool:
    """Whether a file of a model folder is wanted: never code, never a pickle."""
    return _WANTED.fullmatch(name) is not None


def _files(source: HubSource, siblings: Iterable[Any]) -> list[RemoteFile]:
    files = []
    for item in siblings:
        path = PurePosixPath(item.rfilename)
        if not is_data_file(path.name):
            continue
        if path.is_absolute() or ".." in path.parts:
            raise DownloadError(
                f"{source.repository} names a file outside its own folder, so it was refused.",
                unharmed="Nothing was written.",
                remedy="Report it to the model's publisher.",
                detail=item.rfilename,
            )
        sha256 = item.lfs.sha256 if item.lfs else ""
        files.append(RemoteFile(str(path), str(path), int(item.size or 0), sha256))
    if not any(item.name.endswith(".mxq") for item in files):
        raise ModelUnsupportedError(
            f"{source.repository} holds no compiled model (.mxq).",
            unharmed="Nothing was downloaded.",
            remedy="Choose one of Mobilint's models, or build a simulated artifact from a checkpoint.",
        )
    return files
