"""The vendor's layout rules in our words: which sentence and which remedy stands for which refusal.

The rules themselves stay in `mblt_npu`; this only recognises its texts. A text that is not in the table is
shown as it came, so a newer package can add rules without being misquoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from runtime.errors import LayoutError

CLUSTERS = 2
CORES_PER_CLUSTER = 4
UNHARMED = "Nothing was changed."
CORE_FORM = "A core is written device:cluster:core with cluster 0 or 1 and core 0 to 3, such as 0:0:1."
CLUSTER_FORM = "A cluster is written device:cluster with cluster 0 or 1, such as 0:1."

_NOUNS = {"target_cores": "cores", "target_clusters": "clusters"}
_FORMS = {"target_cores": CORE_FORM, "target_clusters": CLUSTER_FORM}
_KEYS = {"target_cores": "layout.cores", "target_clusters": "layout.clusters"}


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: str
    words: Callable[[re.Match[str]], tuple[str, str, str]]
    """Setting key, what is wrong, what to do."""


def explain(error: Exception) -> LayoutError:
    """The vendor's refusal as a LayoutError; its own text goes into the details."""
    text = str(error)
    for rule in _RULES:
        found = re.search(rule.pattern, text)
        if found:
            key, summary, remedy = rule.words(found)
            return LayoutError(key, summary, remedy=remedy, unharmed=UNHARMED, detail=text)
    return LayoutError(
        "layout",
        f"The NPU software does not allow this layout: {text.splitlines()[0] if text else 'no reason given'}",
        remedy="Choose other cores, or the automatic mode.",
        unharmed=UNHARMED,
        detail=text,
    )


def bad_item(field: str, item: object) -> LayoutError:
    """An entry of `target_cores` or `target_clusters` that names nothing on the board."""
    return LayoutError(
        _KEYS[field], f"“{item}” is not one of the {_NOUNS[field]}.", remedy=_FORMS[field], unharmed=UNHARMED
    )


def in_part(title: str, error: LayoutError) -> LayoutError:
    """The same refusal, about one part of the model."""
    return LayoutError(
        "layout.parts",
        f"{title}: {error.summary}",
        remedy=error.remedy,
        unharmed=error.unharmed,
        detail=error.detail,
    )


def twice(title: str) -> LayoutError:
    """Two layouts for one part."""
    return LayoutError(
        "layout.parts",
        f"{title}: a layout is given twice.",
        remedy="Give one layout for each part.",
        unharmed=UNHARMED,
    )


def say_cores(cores: tuple[str, ...]) -> str:
    """E.g. "cores 0:0:0, 0:0:1", or "all cores of device 0"."""
    return _say_items("core", cores, CLUSTERS * CORES_PER_CLUSTER)


def say_clusters(clusters: tuple[str, ...]) -> str:
    """E.g. "cluster 0:0", or "all clusters of device 0"."""
    return _say_items("cluster", clusters, CLUSTERS)


def _say_items(noun: str, items: tuple[str, ...], per_device: int) -> str:
    devices = sorted({item.split(":")[0] for item in items})
    if len(items) == per_device * len(devices):
        return f"all {noun}s of device {', '.join(devices)}"
    return f"{noun}{'' if len(items) == 1 else 's'} {', '.join(items)}"


def _mixed(found: re.Match[str]) -> tuple[str, str, str]:
    field = found["field"]
    return (
        _KEYS[field],
        f"The {_NOUNS[field]} are written in two ways, with and without the device number.",
        f"Write all of them in the long form. {_FORMS[field]}",
    )


def _ambiguous(found: re.Match[str]) -> tuple[str, str, str]:
    field = found["field"]
    return (
        _KEYS[field],
        f"“{found['item']}” does not say on which of the chosen devices it is.",
        _FORMS[field],
    )


def _entry(found: re.Match[str]) -> tuple[str, str, str]:
    field = found["field"]
    return _KEYS[field], f"“{found['item']}” is not one of the {_NOUNS[field]}.", _FORMS[field]


def _devices_differ(found: re.Match[str]) -> tuple[str, str, str]:
    return (
        "layout.dev_no",
        f"The chosen cores are on device {found['named']}, but the device numbers say {found['given']}.",
        "Name the same devices in both, or leave the device numbers out.",
    )


def _global8(found: re.Match[str]) -> tuple[str, str, str]:
    device, got = found["device"], found["got"]
    return (
        "layout.clusters",
        f"Global 8 needs both clusters of device {device}, but only cluster {got} is chosen.",
        "Choose both clusters, or use Global 4.",
    )


def _mode(found: re.Match[str]) -> tuple[str, str, str]:
    return (
        "layout.core_mode",
        f"“{found['mode']}” is not a core mode.",
        "The core modes are auto, single, multi, global4 and global8.",
    )


def _regulus_mode(found: re.Match[str]) -> tuple[str, str, str]:
    return (
        "layout.core_mode",
        "A REGULUS board has one core, so it runs in automatic or single mode only.",
        "Choose one of these two modes.",
    )


def _regulus_core(found: re.Match[str]) -> tuple[str, str, str]:
    return (
        "layout.cores",
        "A REGULUS board has one core only: core 0 of cluster 0.",
        "Leave cores and clusters empty.",
    )


def _board(found: re.Match[str]) -> tuple[str, str, str]:
    return (
        "layout.device",
        f"The NPU software does not know a board called “{found['board']}”.",
        "Update the NPU packages, or use the simulated device.",
    )


_FIELD = r"(?P<field>target_cores|target_clusters)"
_RULES = (
    _Rule(rf"{_FIELD} mixes legacy", _mixed),
    _Rule(rf"Legacy {_FIELD} (?:item|int) '?(?P<item>[^']*?)'? is ambiguous", _ambiguous),
    _Rule(rf"Invalid {_FIELD} entry:? '?(?P<item>.*?)'?(?:: cluster must be .*)?$", _entry),
    _Rule(rf"Unsupported {_FIELD} entry: (?P<item>.*?)(?: \(\w+\))?$", _entry),
    _Rule(r"device set \[(?P<named>[^]]*)\] does not match dev_no \[(?P<given>[^]]*)\]", _devices_differ),
    _Rule(r"requires both clusters for device (?P<device>\d+); got clusters \[(?P<got>[^]]*)\]", _global8),
    _Rule(r"Invalid core mode '(?P<mode>.*)'\. Expected", _mode),
    _Rule(r"Regulus supports only 'auto' and 'single'", _regulus_mode),
    _Rule(r"[Rr]egulus.* sole core", _regulus_core),
    _Rule(r"unknown target_device '(?P<board>.*)'", _board),
)  # fmt: skip
