"""`mblt-desktop transcribe`: audio and video files to text, on standard output or as files."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from mblt_desktop.commands.layout_notes import asked_layout
from mblt_desktop.commands.model_choice import choose_model
from mblt_desktop.commands.recording import recorded
from mblt_desktop.commands.start import check_layout, config_for, say_overdue
from mblt_desktop.session import Session
from runtime.audio.subtitles import FORMATS, TranscriptFormat, as_json, render, write
from runtime.audio.times import clock
from runtime.catalog.entries import DEMO_SPEECH
from runtime.errors import MbltError, SettingError
from runtime.messages import Event, LoadSpeech, ModelLoaded, Transcribe, Transcribed, TranscribeProgress
from runtime.settings.table import SETTINGS, add_arguments, layout_from_args


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "transcribe",
        help="turn speech into text",
        description="Turn the speech in audio and video into text.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILES", help="audio or video files")
    parser.add_argument(
        "-m", "--model", default=DEMO_SPEECH, help=f"a speech model's id or folder; default: {DEMO_SPEECH}"
    )
    parser.add_argument(
        "-f", "--format", default="txt", metavar="|".join(FORMATS), help="what to write; default: txt"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write one file for each here")
    parser.add_argument("--language", help="what is spoken, e.g. en; default: found out from the audio")
    parser.add_argument("--trace", type=Path, help="record a trace here (.pftrace, .json or .json.gz)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_arguments(parser, "layout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Transcribe every file; 0 only when all of them succeeded."""
    form = _format(args)
    language = None
    if args.language is not None:
        language = str(SETTINGS["audio.language"].parse(args.language))
    config = config_for(args)
    model = choose_model(config, args.model)
    check_layout(layout_from_args(args), model.folder, config)
    layout = asked_layout(args)
    reports: list[dict[str, object]] = []
    targets = _Targets(args.output, form)
    with Session(config) as session, recorded(session, config, args.trace):
        session.submit(LoadSpeech(model.model_id, str(model.folder), layout))
        session.wait_for(ModelLoaded)
        for source in args.files:
            reports.append(_one(session, source, language, args, form, targets))
    if args.json:
        _out(json.dumps({"files": reports}, ensure_ascii=False, indent=2) + "\n")
    return 1 if any("error" in report for report in reports) else 0


def _one(
    session: Session,
    source: Path,
    language: str | None,
    args: argparse.Namespace,
    form: TranscriptFormat,
    targets: _Targets,
) -> dict[str, object]:
    """Transcribe and write one file; a failure is told and does not end the others."""
    try:
        result = _transcribe(session, source, language)
        target = targets.path_for(source)
        if target is not None:
            write(result, target, form)
    except MbltError as error:
        _say(f"error: {error.info.sentence()}")
        return {"source": str(source), "error": dataclasses.asdict(error.info)}
    for warning in result.warnings:
        _say(f"warning: {source.name}: {warning}")
    if target is not None:
        _say(f"{source.name}: {_summary(result)} → {target}")
    elif not args.json:
        _out((f"{source.name}\n" if len(args.files) > 1 else "") + render(result, form))
        _say(_summary(result))
    written: dict[str, object] = {} if target is None else {"output": str(target)}
    return {**as_json(result), "elapsed": round(result.elapsed, 3), **written}


def _transcribe(session: Session, source: Path, language: str | None) -> Transcribed:
    request_id = uuid.uuid4().hex
    session.submit(
        Transcribe(
            request_id,
            str(source.absolute()),
            language,
            word_times=True,
            submitted_ns=time.perf_counter_ns(),
        )
    )
    try:
        with session.cancelling(request_id):
            return session.wait_for(Transcribed, _progress(source.name))
    finally:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def _progress(name: str) -> Callable[[Event], None]:
    def watch(event: Event) -> None:
        say_overdue(event)
        if isinstance(event, TranscribeProgress) and sys.stderr.isatty():
            whole = "" if event.duration is None else f" of {clock(event.duration)}"
            sys.stderr.write(f"\r\x1b[K{name}: {clock(event.position)}{whole}")
            sys.stderr.flush()

    return watch


class _Targets:
    """Where each transcript goes: DIR/name.ending, never two to the same place."""

    def __init__(self, folder: Path | None, form: TranscriptFormat) -> None:
        self._folder = folder
        self._form = form
        self._taken: set[Path] = set()

    def path_for(self, source: Path) -> Path | None:
        """The file to write, or None for standard output."""
        if self._folder is None:
            return None
        candidates = [f"{source.stem}.{self._form}", f"{source.name}.{self._form}"]
        candidates += [f"{source.name}-{number}.{self._form}" for number in range(2, len(self._taken) + 3)]
        for name in candidates:
            target = self._folder / name
            if target not in self._taken and target.resolve() != source.resolve():
                self._taken.add(target)
                return target
        raise AssertionError("there is always one more number")


def _format(args: argparse.Namespace) -> TranscriptFormat:
    if args.format not in FORMATS:
        raise SettingError(
            "--format",
            f"--format does not know “{args.format}”.",
            remedy=f"Choose one of {', '.join(FORMATS)}.",
        )
    form: TranscriptFormat = args.format
    if args.output is None and len(args.files) > 1 and form != "txt" and not args.json:
        raise SettingError(
            "--output",
            f"Several files cannot share one {form} document on standard output.",
            remedy="Name a folder for them with -o DIR, or print one JSON document with --json.",
        )
    return form


def _summary(result: Transcribed) -> str:
    speed = f"{result.duration / result.elapsed:.0f}× real time" if result.elapsed > 0 else ""
    language = result.language or "no language"
    return " · ".join(part for part in (clock(result.duration), language, speed, result.engine) if part)


def _out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - the command line's output
