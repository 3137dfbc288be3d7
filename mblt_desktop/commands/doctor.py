"""`mblt-desktop doctor`: is this computer ready, and if not, what to do."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from mblt_desktop.paths import default_paths
from runtime.config import RuntimeConfig
from runtime.device.doctor import Report, examine
from runtime.settings.table import SETTINGS, device_from_args

_MARKS = {"ok": "ok", "note": "note", "warning": "warn", "failure": "FAIL"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="check whether this computer is ready",
        description="Check Python, Qt, the NPU software, boards, sound, disk and models. "
        "The exit status is 0 when the program can be used.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--device", dest="layout_device", metavar="auto|npu|simulated", help=SETTINGS["layout.device"].help
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look, and say what there is."""
    report = examine(RuntimeConfig(default_paths().data, device_from_args(args)))
    sys.stdout.write(_document(report) if args.json else _text(report))
    return 0 if report.usable else 1


def _document(report: Report) -> str:
    document = {
        "usable": report.usable,
        "device": report.device or None,
        "simulated": report.simulated,
        "log": str(default_paths().logs),
        "checks": [asdict(finding) for finding in report.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _text(report: Report) -> str:
    width = max(len(finding.title) for finding in report.findings)
    lines = []
    for finding in report.findings:
        lines.append(f"{_MARKS[finding.status]:<5}{finding.title:<{width}}  {finding.summary}")
        if finding.fix:
            lines.append(f"{'':<5}{'':<{width}}  → {finding.fix}")
    if not report.usable:
        lines.append("\nNot ready: see FAIL above.")
    elif report.simulated:
        lines.append(f"\nReady. Models run on {report.device}: right answers, but no NPU speed.")
    else:
        lines.append(f"\nReady. Models run on {report.device}.")
    lines.append(f"The window's log is in {default_paths().logs}.")
    return "\n".join(lines) + "\n"
