"""The regression gate: ratios of `shunt bench` beside their targets.

Usage: gate.py [--shunt PROGRAM] [--cases FILE] [--anyway]
               [--keep FOLDER | --judge FOLDER]

Runs the cases of a table (gate.cases says what it holds), in rounds, so that
all see the same moods of the machine, and compares the median of each measure
with 1.5 times its target. What is over that is measured once more, and if it
still is, and the machine was quiet enough to tell, that is a regression.

Whether a machine can tell is measured, too:
 - other programs' share of its processors: all its busy time by /proc/stat,
   less our own children's; over 10 % is too much;
 - time stolen by the hypervisor, of the same file: over 2 %;
 - of each case, how far its yardsticks are apart, the floors of its runs or
   its signals (largest by smallest, and within a run median by best): over
   1.3. They are plain copies and bare signals; what shakes them is not Shunt.
A machine that is too noisy in the second before the first run is not asked at
all, unless --anyway is given.

--keep leaves the JSON of every run and what the machine did in FOLDER;
--judge measures nothing and judges such a folder.

Exit status: 0 all within their limits, or it cannot be told (a line with
"skipped" says what and why); 1 a regression; 2 the gate itself went wrong.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import traceback

PHASES = "dispatch", "combine"
SLACK = 1.5
MOST_FOREIGN = 0.10
MOST_STOLEN = 0.02
MOST_SPREAD = 1.3
HERE = pathlib.Path(__file__).resolve().parent


class Broken(Exception):
    """The gate cannot do its work."""


# ---- the table -------------------------------------------------------------


def read_table(path):
    """Cases {name: (rounds, options)} and checks [(name, measure, target,
    held)]."""
    cases, checks = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if words[0] == "case":
                if words[1] in cases:
                    raise ValueError
                cases[words[1]] = (int(words[2]), words[3:])
            elif words[0] == "check" and 4 <= len(words) <= 5:
                held = float(words[4]) if len(words) == 5 else None
                if not all(map(math.isfinite, map(float, words[3:]))):
                    raise ValueError
                checks.append((words[1], words[2], float(words[3]), held))
            else:
                raise ValueError
        except (ValueError, IndexError):
            raise Broken(f"{path}:{number}: neither a case nor a check: "
                         f"{line}") from None
    if not checks:
        raise Broken(f"{path} has no check")
    for name, measure, _, _ in checks:
        for needed in {name, measure.partition(":")[2] or name}:
            if needed not in cases:
                raise Broken(f"{path}: a check needs the case {needed}")
    return cases, checks


# ---- the machine -----------------------------------------------------------


class Machine:
    """What the machine does while we measure."""

    def __init__(self):
        self.started = self.look()

    @staticmethod
    def look():
        fields = [int(f) for f in pathlib.Path("/proc/stat").read_text()
                  .splitlines()[0].split()[1:9]]
        user, nice, system, idle, iowait, irq, softirq, steal = fields
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "busy": user + nice + system + irq + softirq,
            "all": sum(fields),
            "stolen": steal,
            "own": (own.ru_utime + own.ru_stime) * os.sysconf("SC_CLK_TCK"),
        }

    def shares(self):
        """Shares of all processors' time since the start."""
        now = self.look()
        spent = {key: now[key] - self.started[key] for key in now}
        total = max(spent["all"], 1)
        return {
            "foreign": max(spent["busy"] - spent["own"], 0) / total,
            "stolen": spent["stolen"] / total,
        }


def why_machine_is_noisy(shares):
    if shares["foreign"] > MOST_FOREIGN:
        return (f"other programs took {shares['foreign']:.0%} of the "
                f"processors, more than {MOST_FOREIGN:.0%}")
    if shares["stolen"] > MOST_STOLEN:
        return (f"{shares['stolen']:.1%} of the time was stolen from this "
                f"machine, more than {MOST_STOLEN:.0%}")
    return None


def yardstick(measure, run):
    """(name, median, best) of what a check's time is held against."""
    part, _, unit = measure.partition(":")[0].partition("/")
    if unit == "signals":
        return "signal", run["signal_us"]["p50"], run["signal_us"]["best"]
    phase = "dispatch" if part == "startup" else part
    return (f"{phase}'s floor", run[f"{phase}_floor_us"],
            run[f"{phase}_floor_best_us"])


def why_case_is_noisy(measure, name, runs):
    """How far the yardsticks of a check's cases are apart."""
    other = measure.partition(":")[2]
    for case in filter(None, (name, other)):
        why = why_runs_are_noisy(measure, runs[case])
        if why:
            return why
    return None


def why_runs_are_noisy(measure, runs):
    names, medians, bests = zip(*(yardstick(measure, run) for run in runs))
    inside = statistics.median(
        median / best for median, best in zip(medians, bests))
    varied = max(inside, max(medians) / min(medians))
    if varied > MOST_SPREAD:
        return f"{names[0]} varied by {varied:.2f}, more than {MOST_SPREAD}"
    return None


# ---- measuring -------------------------------------------------------------


def run_case(shunt, options):
    result = subprocess.run(
        [shunt, "bench", *options, "--quiet", "--json", "-"],
        cwd=HERE.parent, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Broken(f"shunt bench {' '.join(options)} failed: "
                     f"{result.stderr.strip()}")
    return json.loads(result.stdout)


def run_rounds(shunt, cases, names, runs):
    """Adds the rounds of the named cases to runs {name: [run]}."""
    for turn in range(max(cases[name][0] for name in names)):
        for name in names:
            if turn < cases[name][0]:
                runs.setdefault(name, []).append(
                    run_case(shunt, cases[name][1]))


def keep(folder, runs, shares):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine").write_text(json.dumps(shares))
    for name, its_runs in runs.items():
        for turn, run in enumerate(its_runs):
            (folder / f"{name}.{turn}.json").write_text(json.dumps(run))


def load(folder, cases):
    runs = {}
    for name in cases:
        paths = sorted(folder.glob(f"{name}.*.json"))
        if not paths:
            raise Broken(f"{folder} has no run of {name}")
        runs[name] = [json.loads(path.read_text()) for path in paths]
    return runs, json.loads((folder / "machine").read_text())


# ---- judging ---------------------------------------------------------------


def values_of(measure, runs, name):
    """The measure in each round of its case."""
    what, _, other = measure.partition(":")
    part, _, unit = what.partition("/")
    beside = runs[other or name]
    return [value_of(part, unit, run, beside[min(turn, len(beside) - 1)])
            for turn, run in enumerate(runs[name])]


def value_of(part, unit, run, beside):
    startup = run["startup"]
    if (part, unit) == ("startup", "ms"):
        return startup["exchange_us"]["p50"] / 1000
    if (part, unit) == ("startup", "memory"):
        return abs(startup["memory_bytes"] / startup["query_bytes"] - 1)
    if part not in PHASES or unit not in ("floor", "time", "signals"):
        raise Broken(f"'{part}/{unit}' is no measure")
    if unit == "signals":
        return run[f"{part}_signals"]
    if unit == "floor":
        return run[f"{part}_us"]["p50"] / beside[f"{part}_floor_us"]
    return run[f"{part}_us"]["p50"] / beside[f"{part}_us"]["p50"]


def judge(checks, runs, shares):
    """Rows (name, measure, value, target, limit, verdict)."""
    machine = why_machine_is_noisy(shares)
    rows = []
    for name, measure, target, held in checks:
        value = statistics.median(values_of(measure, runs, name))
        limit = SLACK * (target if held is None else held)
        verdict = "ok" if value <= limit else "OVER"
        noise = machine or why_case_is_noisy(measure, name, runs)
        if verdict == "OVER" and noise:
            verdict = f"skipped: {noise}"
        rows.append((name, measure, value, target, limit, verdict))
    return rows


def report(rows, shares):
    print(f"{'case':15}{'measure':24}{'value':>8}{'target':>8}{'limit':>8}")
    for name, measure, value, target, limit, verdict in rows:
        print(f"{name:15}{measure:24}{value:8.2f}{target:8.2f}{limit:8.2f}  "
              f"{verdict}")
    print(f"\nother programs {shares['foreign']:.1%} of the processors, "
          f"stolen {shares['stolen']:.1%}")
    over = [row for row in rows if row[5] == "OVER"]
    skipped = [row for row in rows if row[5].startswith("skipped")]
    if skipped:
        print(f"gate: NOTICE: {len(skipped)} of {len(rows)} checks skipped, "
              "the machine was too noisy to tell")
    for name, measure, value, _, limit, _ in over:
        print(f"gate: REGRESSION: {name} {measure} is {value:.2f}, "
              f"over {limit:.2f}")
    if not over and not skipped:
        print("gate: all within their limits")
    return 1 if over else 0


def cannot_begin():
    """Why measuring makes no sense here, or None."""
    if len(os.sched_getaffinity(0)) < 2:
        return "there is one core only, the targets are for two"
    machine = Machine()
    time.sleep(1)
    return why_machine_is_noisy(machine.shares())


def measure(options, cases, checks):
    machine, runs = Machine(), {}
    run_rounds(options.shunt, cases, list(cases), runs)
    over = {row[0] for row in judge(checks, runs, machine.shares())
            if row[5] == "OVER"}
    over |= {name_of.partition(":")[2] for name, name_of, _, _ in checks
             if name in over and ":" in name_of}
    if over:
        print("once more:", *sorted(over))
        run_rounds(options.shunt, cases, sorted(over), runs)
    return runs, machine.shares()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shunt", default=HERE.parent / "build/bin/shunt")
    parser.add_argument("--cases", type=pathlib.Path,
                        default=HERE / "gate.cases")
    parser.add_argument("--anyway", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--judge", type=pathlib.Path)
    options = parser.parse_args()
    cases, checks = read_table(options.cases)

    if options.judge:
        runs, shares = load(options.judge, cases)
    elif not options.anyway and (reason := cannot_begin()):
        print(f"gate: NOTICE: skipped: {reason}")
        return 0
    else:
        runs, shares = measure(options, cases, checks)
    if options.keep:
        keep(options.keep, runs, shares)
    return report(judge(checks, runs, shares), shares)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Broken, OSError) as error:
        print(f"gate: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception:  # status 1 is a regression's
        traceback.print_exc()
        sys.exit(2)
