#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the gateway beside its rivals and says what holds.

For:       `make bench`: a table on stdout and build/bench/result.json. QUICK=1 in the environment
           is one round of the saturation (also by TLS) and SSE rows; ROUNDS=N is another number
           of rounds (5).
           --rows, --candidates and --seconds-factor serve profiling; such a run is marked partial.
Called by: make bench, people. docs/benchmarks.md says how to read what comes out.
Knows not: how anybody works inside.

Exit code 1: a row is missing or an answer was wrong. A must that is missed is printed loudly.
"""

import argparse
import datetime
import os
import pathlib
import signal
import sys
import time

import candidates
import machine
import report
import rows
import scenarios

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 5
MINUTES = 44
QUICK_MINUTES = 2
REPEATS = 2


def read_arguments():
    parser = argparse.ArgumentParser(description="Measures the gateway beside its rivals.")
    parser.add_argument("--rows", help="only these, by commas (tls: all over TLS): "
                        + ", ".join(rows.ROWS))
    parser.add_argument("--candidates", help="only these: " + ", ".join(candidates.ALL))
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS") or 0))
    parser.add_argument("--minutes", type=float,
                        help="then no round begins but the first, and nothing is repeated")
    parser.add_argument("--seconds-factor", type=float, default=1.0, help="of each duration")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build",
                        help="where tollgate, load and fake are")
    parser.add_argument("--quick", action="store_true",
                        default=os.environ.get("QUICK", "") not in ("", "0"))
    return parser.parse_args()


def chosen(text, known, what):
    """The names in a list by commas, in the order of `known`; all when there is no list."""
    if text is None:
        return list(known)
    names = []
    for name in text.split(","):
        names += [other for other in known if other.startswith("tls-")] if name == "tls" else [name]
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"bench: no such {what}: {', '.join(unknown)}")
    return [name for name in known if name in names]


class Run:
    """The whole run: rounds of scenarios, candidates in an order that turns."""

    def __init__(self, arguments, field):
        self.arguments = arguments
        self.field = field
        self.quick = arguments.quick
        self.partial = bool(arguments.rows or arguments.candidates
                            or arguments.seconds_factor != 1.0)
        self.rows = [name for name in chosen(arguments.rows, rows.ROWS, "row")
                     if not self.quick or scenarios.SCENARIOS[rows.ROWS[name].scenario].quick]
        self.names = chosen(arguments.candidates, candidates.ALL, "candidate")
        self.rounds = 1 if self.quick else arguments.rounds or ROUNDS
        wanted = {rows.ROWS[name].scenario for name in self.rows}
        self.plan = {name: [candidate for candidate in scenario.candidates
                            if candidate in self.names]
                     for name, scenario in scenarios.SCENARIOS.items() if name in wanted}
        durations = scenarios.QUICK if self.quick else scenarios.FULL
        self.bench = scenarios.Bench(field, scenarios.Durations(
            *(seconds * arguments.seconds_factor for seconds in durations)))
        self.results = {name: [] for name in self.plan}  # per round: {candidate: figures}
        self.unavailable = {}
        self.left = sum(len(members) * min(self.rounds, scenarios.SCENARIOS[name].rounds
                                           or self.rounds)
                        for name, members in self.plan.items())
        self.done = 0
        self.rounds_done = 0
        self.began = time.monotonic()
        self.deadline = self.began + 60 * (arguments.minutes or
                                           (QUICK_MINUTES if self.quick else MINUTES))

    def play(self):
        self.look_for_programs()
        for turn in range(self.rounds):
            for name, members in self.plan.items():
                scenario = scenarios.SCENARIOS[name]
                if scenario.rounds is not None and turn >= scenario.rounds:
                    continue
                results = {}
                for i in range(len(members)):
                    if turn > 0 and time.monotonic() > self.deadline:
                        print("bench: the time is over", file=sys.stderr)
                        return
                    candidate = members[(i + turn) % len(members)]
                    results[candidate] = self.measure_well(scenario, candidate)
                    self.tell(turn, name, candidate, results[candidate])
                self.results[name].append(results)
            self.rounds_done = turn + 1

    def look_for_programs(self):
        for name in sorted({member for members in self.plan.values() for member in members}):
            try:
                if name in candidates.PLAIN_PROXIES:
                    candidates.program(name)
                elif name == "portkey":
                    candidates.portkey_entry(self.field.build)
            except candidates.Unavailable as why:
                self.unavailable[name] = str(why)

    def measure_well(self, scenario, candidate):
        """Figures, taken again when others were busy meanwhile and there is time."""
        for attempt in range(REPEATS + 1):
            figures = self.measure(scenario, candidate)
            disturbed = scenario.watched and figures.get("others", 0) > rows.OTHERS_MOST
            if not disturbed or attempt == REPEATS or self.short_of_time():
                break
        self.done += 1
        self.left -= 1
        if disturbed:
            figures["disturbed"] = True
        return figures

    def short_of_time(self):
        """Would one more measurement cost the run its last ones?"""
        now = time.monotonic()
        average = (now - self.began) / (self.done + 1)
        return now + average * (self.left + 1) > self.deadline

    def measure(self, scenario, name):
        if name in self.unavailable:
            return {"failed": self.unavailable[name]}
        running = None
        try:
            running = self.field.start(name, scenario.setting)
            return scenario.measure(self.bench, running)
        except (candidates.Unavailable, scenarios.Failed, OSError) as why:
            return {"failed": str(why)}
        finally:
            if running is not None:
                self.field.stop(running)

    def tell(self, turn, scenario, candidate, figures):
        shown = [f"{name} {report.number(value)}" for name, value in figures.items()
                 if isinstance(value, (int, float)) and not isinstance(value, bool)]
        shown += [f"{name}: {figures[name]}" for name in ("failed", "wrong") if name in figures]
        print(f"round {turn + 1} {scenario} {candidate}: {', '.join(shown)}"
              f"{' (others were busy)' if figures.get('disturbed') else ''}",
              file=sys.stderr, flush=True)

    def outcome(self):
        """All that result.json holds."""
        judged = [rows.judge(name, self.results[rows.ROWS[name].scenario]) for name in self.rows]
        wrong = sorted({f"{name}: {candidate}: {figures['wrong']}"
                        for name, rounds in self.results.items() for results in rounds
                        for candidate, figures in results.items() if "wrong" in figures})
        marks = ["quick"] * self.quick + ["partial"] * self.partial or ["full"]
        now = datetime.datetime.now().astimezone()
        return {"mark": " ".join(marks), "date": now.isoformat(timespec="minutes"),
                "minutes": (time.monotonic() - self.began) / 60, "rounds_wanted": self.rounds,
                "rounds_done": self.rounds_done, "machine": machine.facts(),
                "versions": candidates.versions(self.field.build), "rows": judged,
                "left_out": rows.LEFT_OUT, "wrong": wrong, "unavailable": self.unavailable,
                "durations_s": self.bench.durations._asdict(),
                "sizes": self.bench.sizes._asdict(), "measurements": self.results}

    def is_good(self, result):
        """No wrong answer, and every row there; a quick run can do without what npm did not bring,
        a partial one without those that were not asked for."""
        excused = set(candidates.ALL) - set(self.names)
        if self.quick and "portkey" in self.unavailable:
            excused.add("portkey")
        absent = [row for row in result["rows"] if row["missing"]
                  and row["reference"] not in excused and rows.OURS not in excused
                  and not (rows.ROWS[row["name"]].added and "direct" in excused)
                  and not (rows.ROWS[row["name"]].reference == "best" and row["reference"] is None
                           and excused.issuperset(candidates.PLAIN_PROXIES))]
        return not absent and not result["wrong"]


def interrupt(*_):
    """The first signal ends the run; later ones must not end the cleaning up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    arguments = read_arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    directory = arguments.build.resolve() / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {machine.OTHER_CORE})
    try:
        with machine.Processes() as processes:
            run = Run(arguments, candidates.Field(processes, arguments.build.resolve(), directory))
            run.play()
            result = run.outcome()
    except candidates.Unavailable as why:
        sys.exit(f"bench: {why}")
    except KeyboardInterrupt:
        print("bench: interrupted; all that it started has ended", file=sys.stderr)
        return 130
    report.write(result, directory / "result.json")
    print(report.table(result))
    print(f"\nall figures: {directory / 'result.json'}")
    return 0 if run.is_good(result) else 1


if __name__ == "__main__":
    sys.exit(main())
