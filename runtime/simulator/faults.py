"""Failures on demand, so that what the product does about them can be tested.

By code, `inject(Fault("device_lost"))`, or for a whole process with the environment variable
`MBLT_SIM_FAULTS`, a comma-separated list of `kind[=value][@nth][xtimes]`:

    slow_launch=3         the next launch takes 3 s longer
    slow_core=0.05x1000   every infer holds its cores 0.05 s longer, a thousand times
    stall=2               one infer answers after 2 s, with the runtime's time-out error
    device_lost=5@12      the board goes away in the middle of the 12th infer and is back 5 s later
    out_of_memory         the next launch does not fit
    nan_logits@3          the 3rd infer returns NaN
    refused@3             the 3rd infer is refused; the device goes on
    corrupt_kv            one byte of the next KV dump is wrong
    truncated_kv          the next KV dump is cut short
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

from runtime.errors import SettingError

ENVIRONMENT = "MBLT_SIM_FAULTS"
KINDS = (
    "slow_launch",
    "slow_core",
    "stall",
    "device_lost",
    "out_of_memory",
    "nan_logits",
    "refused",
    "corrupt_kv",
    "truncated_kv",
)
_ITEM = re.compile(r"(?P<kind>[a-z_]+)(=(?P<value>\d+(\.\d+)?))?(@(?P<nth>\d+))?(x(?P<times>\d+))?")


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure: from its `nth` occasion on, `times` times."""

    kind: str
    value: float = 0.0
    nth: int = 1
    times: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(
                ENVIRONMENT,
                f"{ENVIRONMENT} names a fault “{self.kind}” that does not exist.",
                remedy=f"Use one of {', '.join(KINDS)}.",
            )
        if self.nth < 1 or self.times < 1:
            raise SettingError(
                ENVIRONMENT,
                f"{ENVIRONMENT}: “{self.kind}” counts from 1.",
                remedy="Write, for example, nan_logits@3.",
            )


class Faults:
    """The failures still to come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: list[tuple[Fault, int]] = []

    def inject(self, fault: Fault) -> None:
        """Add one."""
        with self._lock:
            self._plan.append((fault, 0))

    def clear(self) -> None:
        """Forget them all."""
        with self._lock:
            self._plan = []

    def strike(self, kind: str) -> float | None:
        """This is an occasion for `kind`: its value if it happens now, else None."""
        if not self._plan:
            return None
        with self._lock:
            for index, (fault, seen) in enumerate(self._plan):
                if fault.kind == kind and seen < fault.nth - 1 + fault.times:
                    self._plan[index] = (fault, seen + 1)
                    return fault.value if seen + 1 >= fault.nth else None
        return None


def parse(text: str) -> list[Fault]:
    """The faults that `MBLT_SIM_FAULTS` asks for; raises SettingError for what is not one."""
    faults = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise SettingError(
                ENVIRONMENT,
                f"{ENVIRONMENT} has “{item}”, which is not kind[=value][@nth][xtimes].",
                remedy="Write, for example, device_lost@12.",
            )
        faults.append(
            Fault(match["kind"], float(match["value"] or 0), int(match["nth"] or 1), int(match["times"] or 1))
        )
    return faults


FAULTS = Faults()
inject = FAULTS.inject
