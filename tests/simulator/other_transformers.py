"""The transformers release that qwen-asr insists on, in a folder of its own beside the installed one.

`qwen-asr` requires exactly one release of transformers, older than the one this program is tested with, so
both cannot be in one environment. Everything else of the environment serves both: a program that has this
folder first on its path runs the vendor's Qwen3-ASR classes as their extra would install them.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT

PACKAGES = ("qwen-asr==0.0.6", "transformers==4.57.6", "tokenizers==0.22.2", "huggingface-hub==0.36.2")
# Imported by the package for its command line and its forced aligner; nothing here calls them.
UNUSED = ("nagisa", "librosa")


def prepare() -> Path:
    """The folder, made once and kept between runs."""
    folder = CHECKOUT / ".cache" / "qwen-asr-0.0.6"
    done = folder / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        # Several pytest sessions may share it; the later ones wait for the first.
        fcntl.flock(file, fcntl.LOCK_EX)
        if not done.exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
            subprocess.run([*command, "--target", str(folder), *PACKAGES], check=True, timeout=600)
            for name in UNUSED:
                (folder / f"{name}.py").touch()
            done.touch()
    return folder


def run(script: Path, *arguments: str) -> None:
    """Run a program with those packages; raises when it fails, with what it said."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(prepare()), str(CHECKOUT)])}
    result = subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-4000:]
