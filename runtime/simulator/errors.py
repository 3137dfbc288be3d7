"""The one exception of the vendor's runtime, with its code words."""

from __future__ import annotations

from typing import cast

_HELP = "Please visit https://docs.mobilint.com/v1.5/doxygen/html_en/group__CPPAPI.html for more details."


def npu_error(code: str, detail: str = "") -> RuntimeError:
    """A `qbruntime.QbRuntimeError` as the runtime words it; `detail` is what the real one logs."""
    from qbruntime import QbRuntimeError

    lines = (f"{code} occurred.", detail, _HELP)
    return cast("RuntimeError", QbRuntimeError("\n".join(line for line in lines if line)))
