"""The tables of docs/scale.md: `shunt model` for 16 to 1024 ranks.

Usage: model_table.py [--shunt PROGRAM] [--tokens T] OPTION...

The OPTIONs go to `shunt model`: the constants, and what a row shall be. 8 ranks
on a host, 256 experts or one on each rank; wires of 100, 400 and 800 Gb/s for
each host, without what headers take.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RANKS, WIRES = (16, 64, 256, 1024), (100, 400, 800)
ALGORITHMS, PHASES = ("fullmesh", "hierarchy"), ("dispatch", "combine")
MIB = 1 << 20


class Table:
    def __init__(self, shunt, tokens, options):
        self.shunt, self.tokens, self.options = shunt, tokens, options

    def model(self, ranks, wire):
        command = [self.shunt, "model", "--cores", 8, "--ranks", ranks,
                   "--hosts", ranks // 8, "--tokens", self.tokens,
                   "--experts", max(256, ranks), "--wire-gbs", wire / 8,
                   *self.options, "--json", "-"]
        result = subprocess.run([str(word) for word in command],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"model_table: {result.stderr.strip()}")
        return json.loads(result.stdout)

    def print_times(self):
        print_heads("ranks", "hosts", "Gb/s", *(
            f"{a} {p} us" for a in ALGORITHMS for p in PHASES),
            "best", "fullmesh : best")
        for ranks in RANKS:
            for wire in WIRES:
                run = self.model(ranks, wire)
                times = [f"{run[a][p]['total_us']:.0f}"
                         for a in ALGORITHMS for p in PHASES]
                # The phases need not choose alike.
                best = [min(ALGORITHMS, key=lambda a, p=p:
                            run[a][p]["total_us"]) for p in PHASES]
                ratio = run["fullmesh"]["roundtrip_us"] / sum(
                    run[a][p]["total_us"] for a, p in zip(best, PHASES))
                print_row(ranks, ranks // 8, wire, *times, ", ".join(best),
                          f"{ratio:.2f}")

    def print_needs(self):
        print_heads("ranks", "algorithm", "hosts per token",
                    "rows per token", "rows MB", "counts MB", "messages",
                    "MiB", "MiB worst", "MiB wire", "queue pairs")
        for ranks in RANKS:
            run = self.model(ranks, WIRES[0])
            for algorithm in ALGORITHMS:
                self.print_need(ranks, run, algorithm)

    def print_need(self, ranks, run, algorithm):
        phases = [run[algorithm][phase] for phase in PHASES]
        rank, routing = run[algorithm]["rank"], run["routing"]
        rows = " + ".join(f"{p['wire_bytes'] / 1e6:.1f}" for p in phases)
        messages = " + ".join(f"{p['messages']:.0f}" for p in phases)
        print_row(ranks, algorithm,
                  f"{routing['remote_hosts_per_token']:.2f}",
                  f"{routing['remote_rows_per_token']:.2f}", rows,
                  f"{phases[0]['counts_bytes'] / 1e6:.2f}", messages,
                  f"{(rank['window_bytes'] + rank['private_bytes']) / MIB:.0f}",
                  f"{rank['worst_bytes'] / MIB:.0f}",
                  f"{rank['wire_bytes'] / MIB:.0f}", rank["queue_pairs"])


def print_row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |")


def print_heads(*heads):
    print_row(*heads)
    print("|" + "---|" * len(heads))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shunt", default=HERE.parent / "build/bin/shunt")
    parser.add_argument("--tokens", type=int, default=128)
    ours, options = parser.parse_known_args()
    table = Table(ours.shunt, ours.tokens, options)
    table.print_times()
    print()
    table.print_needs()


if __name__ == "__main__":
    main()
