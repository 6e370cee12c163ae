"""What a step costs as the number of ranks grows.

Usage: scale.py [--shunt PROGRAM] [--ranks N,N,...] [OPTION...]

Runs `shunt bench` for each number of ranks, as threads with few small tokens
unless the OPTIONs, which go to it, say otherwise, and prints times, time for
each byte that must move (of all ranks, by the floor's rules), and how both
that and the counts have grown since the first row. A rank reads the counts of
all ranks, so those of a byte grow as the ranks do.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = ["--launch", "threads", "--tokens", "4", "--hidden", "512",
         "--topk", "8", "--experts", "768"]
PHASES = "dispatch", "combine"


def run_bench(shunt, ranks, options):
    # As many steps as take some seconds.
    iterations = max(5, min(200, 6000 // max(ranks, 1)))
    result = subprocess.run(
        [shunt, "bench", *SHAPE, "--iters", str(iterations), *options,
         "--ranks", str(ranks), "--quiet", "--json", "-"],
        capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"scale: {ranks} ranks: {result.stderr.strip()}")
    return json.loads(result.stdout)


def counts_bytes(run):
    """Bytes of counts that each rank reads in a step."""
    return 4 * run["parameters"]["ranks"] * run["parameters"]["experts"]


def byte_ns(run, phase):
    """Time for each byte that must move."""
    return run[f"{phase}_us"]["p50"] * 1000 / run[f"{phase}_bytes"]


def print_row(run, first):
    grown = counts_bytes(run) / counts_bytes(first)
    print(f"{run['parameters']['ranks']:>6}{counts_bytes(run):>12}"
          f"{grown:>8.1f}", end="")
    for phase in PHASES:
        time, cost = run[f"{phase}_us"]["p50"], byte_ns(run, phase)
        print(f"{time:>14.0f}{cost:>10.2f}"
              f"{cost / byte_ns(first, phase):>8.1f}", end="")
    startup = run["startup"]
    print(f"{startup['world_us'] / 1000:>10.1f}"
          f"{startup['exchange_us']['p50'] / 1000:>12.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shunt", default=HERE.parent / "build/bin/shunt")
    parser.add_argument("--ranks", default="8,16,64,256,768")
    ours, options = parser.parse_known_args()
    first = None

    print(f"{'ranks':>6}{'counts B':>12}{'grew':>8}", end="")
    for phase in PHASES:
        print(f"{phase + ' us':>14}{'ns/byte':>10}{'grew':>8}", end="")
    print(f"{'world ms':>10}{'exchange ms':>12}")
    for ranks in ours.ranks.split(","):
        run = run_bench(ours.shunt, int(ranks), options)
        first = first or run
        print_row(run, first)


if __name__ == "__main__":
    main()
