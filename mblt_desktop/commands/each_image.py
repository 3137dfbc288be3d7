"""`mblt-desktop chat --each-image`: the same prompt about each picture by itself."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mblt_desktop.commands.answer_output import document, summary, write
from mblt_desktop.commands.start import say_overdue
from mblt_desktop.session import ReportedError, Session
from runtime.errors import ErrorInfo, SettingError
from runtime.messages import Finished, Generate, ImagePart, ModelInfo, TextDelta, TextPart, Turn
from runtime.settings.table import sampling_from_args


@dataclass(slots=True)
class _Picture:
    path: Path
    text: list[str] = field(default_factory=list)
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)


def check_each(args: argparse.Namespace) -> None:
    """Raise SettingError for --each-image without pictures, or with more than one prompt."""
    if args.each_image and not args.image:
        raise SettingError("--each-image", "There is no picture.", remedy="Name some with --image FILE.")
    if args.each_image and len(args.prompt or ()) > 1:
        raise SettingError(
            "--each-image",
            "Only one prompt can be asked about each picture.",
            remedy="Give -p once, or leave --each-image out to go on with one conversation.",
        )


def ask_each(
    session: Session, info: ModelInfo, before: Sequence[Turn], prompt: str, args: argparse.Namespace
) -> int:
    """Ask about every picture, print each answer when it is complete; 0 only when none failed."""
    pictures = [_Picture(path) for path in args.image]
    unsent, sent = deque(pictures), dict[str, _Picture]()
    failed = False
    with session.cancelling(*(picture.request_id for picture in pictures)):
        while unsent or sent:
            while unsent and len(sent) < 2 * info.slots:
                picture = unsent.popleft()
                sent[picture.request_id] = picture
                session.submit(_question(picture, info, before, prompt, args))
            try:
                event = session.next_event()
            except ReportedError as error:
                if error.request_id not in sent:
                    raise
                _print_error(sent.pop(error.request_id), error.info, as_json=args.json)
                failed = True
                continue
            say_overdue(event)
            if isinstance(event, TextDelta):
                sent[event.request_id].text.append(event.text)
            elif isinstance(event, Finished):
                _print_answer(sent.pop(event.request_id), info, event, as_json=args.json)
    return 1 if failed else 0


def _question(
    picture: _Picture, info: ModelInfo, before: Sequence[Turn], prompt: str, args: argparse.Namespace
) -> Generate:
    """In a conversation of its own."""
    turns = (*before, Turn("user", (ImagePart(str(picture.path)), TextPart(prompt))))
    now, sampling = time.perf_counter_ns(), sampling_from_args(args)
    return Generate(picture.request_id, picture.request_id, info.model_id, turns, sampling, now)


def _print_answer(picture: _Picture, info: ModelInfo, finished: Finished, *, as_json: bool) -> None:
    text = "".join(picture.text)
    if as_json:
        _print_line({"image": str(picture.path), **document(text, info, finished)})
    else:
        write(f"{picture.path}\n{text}\n\n")
        print(summary(finished), file=sys.stderr)  # noqa: T201 - the command line's output


def _print_error(picture: _Picture, error: ErrorInfo, *, as_json: bool) -> None:
    if as_json:
        _print_line({"image": str(picture.path), "error": dataclasses.asdict(error)})
    print(f"error: {picture.path}: {error.sentence()}", file=sys.stderr)  # noqa: T201 - likewise


def _print_line(data: dict[str, object]) -> None:
    write(json.dumps(data, ensure_ascii=False) + "\n")
