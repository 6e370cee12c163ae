"""How far `shunt model` is from what `shunt bench` measures on this machine.

Usage: model_check.py [--shunt PROGRAM] [--rounds N] [--quants int8,none]
       model_check.py [--shunt PROGRAM] --local FILE --runs FILE... OPTION...
       model_check.py [--shunt PROGRAM] --boots DIR...

First the constants that depend on no row, from steps without tokens: what a
peer and an expert take, and a turn where ranks share cores. Then, for 2, 4 and
8 ranks as processes and 1, 8 and 128 tokens, the measured medians (the median
of the rounds) beside two predictions: with copy speeds and times per token of
2 ranks with 128 tokens each, and of 2 ranks with as many tokens on the host as
the row has. Errors are of the prediction, in per cent of what was measured.
Predictions of a row from itself fit by construction, and are marked with a *.

The second form measures nothing. Each of the --runs is what `shunt bench --hosts
--json` wrote; it is compared with the prediction for the algorithm that each of its
phases had, with the constants of a host from --local, a run of one of these hosts
without --hosts and of the same rows, and those of the wire as OPTIONs, which go to
`shunt model`.

Nor does the third form, which does the same for what tests/vm/model.sh has measured
in several boots of a guest, each with the constants of that boot: a DIR has them in
`wire' and QUANT-T.local, and the runs in QUANT-T-*.hosts. A row has the median of
the boots, their spread, and the median of the predictions.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RANKS, TOKENS = (2, 4, 8), (1, 8, 128)
PHASES = "dispatch", "combine"


def call(*command):
    result = subprocess.run([str(word) for word in command],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"model_check: {' '.join(map(str, command))}:\n"
                 f"{result.stderr.strip()}")
    return result.stdout


class Check:
    def __init__(self, shunt, rounds, folder):
        self.shunt, self.rounds, self.folder = shunt, rounds, folder
        self.fixed = []

    def bench(self, ranks, tokens, quant, *options):
        """The round of the median round trip, and its file."""
        runs = [json.loads(call(
            self.shunt, "bench", "--ranks", ranks, "--tokens", tokens,
            "--quant", quant, "--iters", max(20, min(200, 6000 // (tokens + 1))),
            *options, "--quiet", "--json", "-")) for _ in range(self.rounds)]
        runs.sort(key=lambda run: run["roundtrip_us"]["p50"])
        run = runs[(len(runs) - 1) // 2]
        path = self.folder / f"{ranks}-{tokens}-{quant}.json"
        path.write_text(json.dumps(run), encoding="utf-8")
        return run, path

    def measure_fixed(self):
        """Medians of steps without rows: all of it is signals, peers,
        experts and turns."""
        def idle(ranks, experts):
            runs = [self.bench(ranks, 0, "int8", "--experts", experts,
                               "--fetch-tokens", -1, "--iters", 1000)[0]
                    for _ in range(5)]
            return [statistics.median(run[f"{phase}_us"]["p50"]
                                      for run in runs) for phase in PHASES]
        few, many = idle(2, 256), idle(2, 4096)
        signal = self.bench(2, 128, "int8")[0]["signal_us"]["p50"]
        # The counts of two ranks are too few to part them from the experts.
        expert_us = (many[0] - few[0]) / (4096 - 256)
        peer_us = max(0, few[1] - signal) / 2
        # 4 ranks on C cores: each core has 4 / C of them in each phase.
        cores = json.loads(call(
            self.shunt, "bench", "--ranks", 1, "--tokens", 1, "--iters", 1,
            "--quiet", "--json", "-"))["machine"]["cores"]
        share = 4 / cores
        turn_us = 0
        if share > 1:
            work = (3 * signal + share *
                    (3 * 4 * peer_us + 256 * expert_us))
            turn_us = max(0, sum(idle(4, 256)) - work) / (3 * share)
        self.fixed = ["--signal-us", signal, "--peer-us", peer_us,
                      "--expert-ns", expert_us * 1000, "--turn-us", turn_us]
        words = (f"{word:.4g}" if isinstance(word, float) else str(word)
                 for word in self.fixed)
        print(" ".join(words), end="\n\n")

    def predict(self, source, ranks, tokens, quant):
        run = json.loads(call(
            self.shunt, "model", "--from", source, "--ranks", ranks,
            "--tokens", tokens, "--quant", quant, *self.fixed, "--json", "-"))
        return run["fullmesh"]

    def error(self, run, predicted, phase):
        measured = run[f"{phase}_us"]["p50"]
        return 100 * (predicted[phase]["total_us"] / measured - 1)

    def print_row(self, case, run, sources):
        ranks, tokens, quant = case
        cells = [quant, ranks, tokens]
        predictions = [(self.predict(source, *case), source == own)
                       for own, source in sources]
        for phase in PHASES:
            cells.append(f"{run[f'{phase}_us']['p50']:.1f}")
            for predicted, own in predictions:
                cells.append(f"{predicted[phase]['total_us']:.1f} "
                             f"({self.error(run, predicted, phase):+.0f} %)"
                             + ("*" if own else ""))
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)

    def check(self, quant):
        pairs = {tokens * ranks // 2 for ranks in RANKS for tokens in TOKENS}
        cases = [(ranks, tokens) for ranks in RANKS for tokens in TOKENS]
        runs = {case: self.bench(*case, quant)
                for case in {*cases, *((2, tokens) for tokens in pairs)}}
        for ranks, tokens in cases:
            run, path = runs[ranks, tokens]
            self.print_row((ranks, tokens, quant), run,
                           [(path, runs[2, 128][1]),
                            (path, runs[2, tokens * ranks // 2][1])])


# What the model needs to know of a run.
PARAMETERS = ("ranks", "hosts", "tokens", "hidden", "topk", "experts", "dtype",
              "quant", "scale_form", "expert_dtype", "out_dtype",
              "combine_quant", "placement", "routing", "seed")


def load(path):
    try:
        run = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"model_check: {path}: {error}")
    if not run.get("ok"):
        sys.exit(f"model_check: {path}: is no result of `shunt bench --json'")
    return run


def predict_run(shunt, local, run, options):
    """Of each phase of a run over hosts: its algorithm, what was measured, what
    is predicted, and the name of the largest term and its share."""
    words = [word for name in PARAMETERS for word in
             (f"--{name.replace('_', '-')}", run["parameters"][name])]
    model = json.loads(call(shunt, "model", "--from", local, *words, *options,
                            "--json", "-"))
    for phase in PHASES:
        algorithm = run["hosts"][phase]["algorithm"]
        # On one host there is one way.
        result = (model[algorithm] or model["fullmesh"])[phase]
        largest = max((name for name in result if name.endswith("_us") and
                       name != "total_us"), key=result.get)
        yield (algorithm, run[f"{phase}_us"]["p50"], result["total_us"],
               largest.removesuffix("_us"), result[largest])


def load_hosts(path):
    run = load(path)
    if not run.get("hosts"):
        sys.exit(f"model_check: {path}: was not measured with --hosts")
    return run


def check_run(shunt, local, path, options):
    """A row of the table of runs over hosts."""
    run = load_hosts(path)
    cells = [run["parameters"][name] for name in
             ("quant", "ranks", "hosts", "tokens")]
    for algorithm, measured, predicted, largest, us in predict_run(
            shunt, local, run, options):
        cells += [algorithm, f"{measured:.0f}", f"{predicted:.0f} "
                  f"({100 * (predicted / measured - 1):+.0f} %)",
                  f"{largest} {us:.0f}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_heads(heads, of_phase):
    for phase in PHASES:
        heads = heads + [phase] + of_phase
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))


def check_runs(ours, options):
    print_heads(["quant", "ranks", "hosts", "T"],
                ["us", "predicted", "most of it"])
    for path in ours.runs:
        check_run(ours.shunt, ours.local, path, options)


def read_boot(shunt, folder, rows):
    """Adds to rows[device, quant, tokens, algorithm] what a boot has of it."""
    device = (folder / "device").read_text(encoding="utf-8").strip()
    wire = (folder / "wire").read_text(encoding="utf-8").split()
    print(f"{device}: {' '.join(wire)}")
    for path in folder.glob("*.hosts"):
        run = load_hosts(path)
        quant, tokens = (run["parameters"][name] for name in
                         ("quant", "tokens"))
        phases = list(predict_run(
            shunt, folder / f"{quant}-{tokens}.local", run, wire))
        key = device, quant, tokens, phases[0][0]
        rows.setdefault(key, []).append(phases)


def boots_cells(boots):
    """Of a phase: the median of boots and their spread, the prediction, that of
    each boot by its own constants, and the term that was the largest most often."""
    measured = [boot[1] for boot in boots]
    median = statistics.median(measured)
    predicted = statistics.median(boot[2] for boot in boots)
    largest = statistics.mode(boot[3] for boot in boots)
    share = statistics.median(boot[4] for boot in boots if boot[3] == largest)
    return [f"{median:.0f} ({min(measured):.0f} .. {max(measured):.0f})",
            f"{predicted:.0f} ({100 * (predicted / median - 1):+.0f} %)",
            f"{largest} {share:.0f}"]


def check_boots(ours):
    rows = {}
    try:
        for folder in ours.boots:
            read_boot(ours.shunt, pathlib.Path(folder), rows)
    except OSError as error:
        sys.exit(f"model_check: {error}")
    print()
    print_heads(["device", "quant", "T", "algorithm"],
                ["predicted", "most of it"])
    for key, boots in sorted(rows.items()):
        cells = list(key)
        for phases in zip(*boots):
            cells += boots_cells(phases)
        print("| " + " | ".join(map(str, cells)) + " |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shunt", default=HERE.parent / "build/bin/shunt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quants", default="int8,none")
    parser.add_argument("--local")
    parser.add_argument("--runs", nargs="+")
    parser.add_argument("--boots", nargs="+")
    options, constants = parser.parse_known_args()
    if bool(options.local) != bool(options.runs):
        parser.error("--local and --runs go together")
    if options.boots:
        if options.runs or constants:
            parser.error("--boots: goes with --shunt only")
        check_boots(options)
        return
    if options.runs:
        check_runs(options, constants)
        return
    if constants:
        parser.error(f"{constants[0]}: only with --runs")
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options.shunt, options.rounds, pathlib.Path(folder))
        check.measure_fixed()
        heads = ["quant", "ranks", "T"]
        for phase in PHASES:
            heads += [phase, "by 2 x 128", "by as many"]
        print("| " + " | ".join(heads) + " |")
        print("|" + "---|" * len(heads))
        for quant in options.quants.split(","):
            check.check(quant)


if __name__ == "__main__":
    main()
