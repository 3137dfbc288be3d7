"""Progress: speed over the last seconds, the time left, and reports that are thinned out."""

from __future__ import annotations

import pytest

from runtime.catalog.job import Job, JobCancelled, Progress


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_speed_and_time_left_follow_the_last_seconds() -> None:
    clock, reports = Clock(), []
    job = Job(reports.append, clock=clock)
    job.begin("Downloading", total=10_000)
    assert reports[-1] == Progress("Downloading", 0, 10_000, None)
    assert reports[-1].seconds_left is None
    for second in range(1, 4):
        clock.now += 1
        job.advance(1000 * second)
    assert reports[-1].bytes_per_second == pytest.approx(1000)
    assert reports[-1].seconds_left == pytest.approx(7)
    for second in range(1, 7):
        clock.now += 1
        job.advance(3000 + 100 * second)
    assert reports[-1].bytes_per_second == pytest.approx(100)


def test_reports_are_thinned_out_but_the_last_one_comes() -> None:
    clock, reports = Clock(), []
    job = Job(reports.append, clock=clock)
    job.begin("Downloading", total=1000)
    for done in range(1, 1001):
        clock.now += 0.001
        job.advance(done)
    assert 5 <= len(reports) <= 15
    assert reports[-1].done == 1000


def test_a_stage_that_moves_no_bytes_has_no_speed() -> None:
    clock, reports = Clock(), []
    job = Job(reports.append, clock=clock)
    job.begin("Packing", total=10, counts_bytes=False)
    clock.now += 1
    job.advance(5)
    assert reports[-1] == Progress("Packing", 5, 10, None)


def test_resumed_bytes_do_not_count_as_speed() -> None:
    clock, reports = Clock(), []
    job = Job(reports.append, clock=clock)
    job.begin("Downloading", total=1000, done=900)
    clock.now += 1
    job.advance(910)
    assert reports[-1].bytes_per_second == pytest.approx(10)


def test_cancelling_is_heard_at_every_step() -> None:
    job = Job(lambda _progress: None, lambda: True)
    with pytest.raises(JobCancelled):
        job.begin("Downloading")
    with pytest.raises(JobCancelled):
        job.check()


def test_each_of_several_files_says_which_it_is_and_how_far_all_are() -> None:
    clock, reports = Clock(), []
    job = Job(reports.append, clock=clock)
    for name, own in zip(("a.json", "b.mxq"), job.of_files([100, 900]), strict=True):
        size = 100 if name == "a.json" else 900
        own.begin(f"Downloading {name}", total=size)
        for tenth in range(1, 11):
            clock.now += 1
            own.advance(size * tenth // 10)
        own.begin(f"Checking {name}", total=size)
    told = [(report.stage, report.share.words, report.share.done) for report in reports]
    assert told[0] == ("Downloading a.json", "file 1 of 2", 0)
    assert ("Checking a.json", "file 1 of 2", 100) in told
    assert ("Downloading b.mxq", "file 2 of 2", 100 + 450) in told
    assert told[-1] == ("Checking b.mxq", "file 2 of 2", 1000)
    done = [report.share.done for report in reports]
    assert done == sorted(done), "what has arrived does not go back while it is checked"
    half = next(report for report in reports if report.share.done == 550)
    assert (half.done, half.total, half.share.total) == (450, 900, 1000)
    assert half.seconds_left == pytest.approx(5)


def test_a_file_among_several_stops_with_the_job() -> None:
    job = Job(lambda _report: None, is_cancelled=lambda: True)
    with pytest.raises(JobCancelled):
        next(job.of_files([1, 2])).begin("Downloading")
