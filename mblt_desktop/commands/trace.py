"""`mblt-desktop trace`: look into a recording, convert it, check it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.tracing.analyse import PHASES, NameStatistics, breakdown, statistics
from runtime.tracing.check import CheckReport, check_file
from runtime.tracing.model import Metadata
from runtime.tracing.read import read_trace
from runtime.tracing.service import export
from runtime.tracing.view import TraceView, make_view

_COLUMNS = (
    f"{'span':<24} {'count':>8} {'total ms':>12} {'mean ms':>10} {'p50 ms':>10} {'p95 ms':>10} {'share':>7}"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "trace",
        help="summarise, export or check a recording",
        description="Work with recordings (.pftrace) and with Chrome or qbruntime traces (.json, .json.gz).",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add(actions, "summarize", _summarize, "print where the time went, by span name and by request")
    out = _add(actions, "export", _export, "write the recording in another format")
    out.add_argument(
        "-o", "--output", metavar="OUT", help="target; its name ends in .json, .json.gz or .pftrace"
    )
    _add(actions, "check", _check, "check that the file is whole; exit status 0 only when it is")


def _add(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    words: str,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.add_argument("file", metavar="FILE", help="the recording")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)
    return parser


def _summarize(args: argparse.Namespace) -> int:
    view = make_view(read_trace(Path(args.file)))
    rows = statistics(view, 0, view.duration_ns)
    if args.json:
        document = {
            "file": args.file,
            **_about(view.metadata),
            "spans": [asdict(row) for row in rows],
            "requests": list(_requests(view)),
            "notes": list(view.notes),
        }
        _print(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    _print_heading(view.metadata)
    _print(_COLUMNS)
    for row in rows:
        _print(_line(row))
    for request in _requests(view):
        phases = ", ".join(f"{phase} {request['share'][phase]:.0%}" for phase in PHASES)
        _print(f"{request['title']}: {request['steps']} of “{request['step']}” ({phases})")
    for note in view.notes:
        _print(f"note: {note}")
    return 0


def _export(args: argparse.Namespace) -> int:
    source = Path(args.file)
    target = Path(args.output) if args.output else source.with_suffix(".json")
    export(source, target)
    if args.json:
        _print(json.dumps({"file": str(target), "bytes": target.stat().st_size}, ensure_ascii=False))
    else:
        _print(str(target))
    return 0


def _check(args: argparse.Namespace) -> int:
    report = check_file(Path(args.file))
    sound = not report.problems
    if args.json:
        _print(json.dumps(_check_document(args.file, report), indent=2, ensure_ascii=False))
    else:
        _print_heading(report.metadata)
        _print(f"{report.spans} spans, {report.counter_values} counter values, {report.flows} arrows")
        for problem in report.problems:
            _print(f"problem: {problem}")
        _print("sound" if sound else "not sound")
    return 0 if sound else 1


def _check_document(file: str, report: CheckReport) -> dict[str, Any]:
    return {
        "file": file,
        "sound": not report.problems,
        "problems": list(report.problems),
        **_about(report.metadata),
        "spans": report.spans,
        "counter_values": report.counter_values,
        "arrows": report.flows,
        "names": report.names,
    }


def _about(metadata: Metadata) -> dict[str, Any]:
    return {"recording": metadata.to_json()}


def _requests(view: TraceView) -> Iterator[dict[str, Any]]:
    for number, request in enumerate(view.requests):
        found = breakdown(view, number)
        if found is not None:
            yield {
                "id": request.request_id,
                "title": request.title,
                "step": found.step_name,
                "steps": len(found.steps),
                "median_ns": {phase: found.median(phase) for phase in PHASES},
                "share": {phase: found.share(phase) for phase in PHASES},
            }


def _print_heading(metadata: Metadata) -> None:
    device = metadata.device or "no device"
    _print(f"{metadata.title}: {metadata.duration_ns / 1e9:.3f} s on {device}")
    _print(f"{metadata.host_events} host events, {metadata.device_events} device events")


def _line(row: NameStatistics) -> str:
    times = " ".join(
        f"{value / 1e6:>{width}.3f}"
        for value, width in ((row.total, 12), (row.mean, 10), (row.p50, 10), (row.p95, 10))
    )
    return f"{row.name:<24} {row.count:>8} {times} {row.share:>7.1%}"


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
