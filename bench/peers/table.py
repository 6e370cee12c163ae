"""Prints what run.sh measured: files NAME.ROUND with the JSON of one run.

Of each name's rounds the median is shown, of medians, of bests, and of
p99s alike. The floors are those of `shunt bench`, measured in its own runs.
"""
import json
import pathlib
import statistics
import sys

PHASES = ("dispatch", "combine")
STATS = ("p50", "best", "p99")


def load(folder):
    runs = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        run = json.loads(path.read_text())
        if not run["ok"]:
            sys.exit(f"{path.name}: the run was not good")
        runs.setdefault(path.stem, []).append(run)
    return runs


def medians(runs):
    return {
        (phase, stat): statistics.median(
            run[f"{phase}_us"][stat] for run in runs)
        for phase in PHASES
        for stat in STATS
    }


def print_times(times):
    print(f"{'microseconds':22}", end="")
    for phase in PHASES:
        for stat in STATS:
            print(f"{phase + ' ' + stat:>15}", end="")
    print()
    for name, row in times.items():
        print(f"{name:22}" + "".join(f"{us:15.1f}" for us in row.values()))


def print_ratios(times, floors):
    ours = times["shunt"]
    peers = {name: row for name, row in times.items() if name != "shunt"}
    for phase in PHASES:
        floor = floors[phase]
        fastest = min(peers, key=lambda name: peers[name][phase, "p50"])
        ratios = [
            peers[fastest][phase, stat] / ours[phase, stat] for stat in STATS
        ]
        print(f"{phase}: floor {floor:.1f} us, ours "
              f"{ours[phase, 'p50'] / floor:.2f} times that; {fastest} takes "
              f"{ratios[0]:.1f} times ours (best {ratios[1]:.1f}, "
              f"p99 {ratios[2]:.1f})")


def main():
    runs = load(sys.argv[1])
    shape = runs["shunt"][0]["parameters"]
    names = ("ranks", "tokens", "hidden", "topk", "experts", "quant", "iters")
    print(" ".join(f"{name} {shape[name]}" for name in names) +
          f" rounds {len(runs['shunt'])}")
    # Ours first, then the others by name.
    order = ["shunt"] + [name for name in runs if name != "shunt"]
    print_times({name: medians(runs[name]) for name in order})
    floors = {
        phase: statistics.median(
            run[f"{phase}_floor_us"] for run in runs["shunt"])
        for phase in PHASES
    }
    print_ratios({name: medians(runs[name]) for name in order}, floors)


main()
