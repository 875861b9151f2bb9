"""`python -m tests.fuzz [--examples N] [--seed N]`: run every target with many examples and print what was run."""

from __future__ import annotations

import argparse
import sys
import time

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.targets import TARGETS


def main() -> int:
    """Run the targets; 1 if one found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--examples", type=int, default=20_000, help="of each target")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    parser.add_argument("--target", choices=sorted(TARGETS), default=None)
    options = parser.parse_args()
    failed = 0
    for name, (function, strategies) in TARGETS.items():
        if options.target not in (None, name):
            continue
        # A whole command costs more than a judgment.
        examples = options.examples // 10 if name == "command line" else options.examples
        test = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
            phases=(Phase.generate, Phase.shrink),
            print_blob=True,
        )(given(**strategies)(function))
        if options.seed is not None:
            test = seed(options.seed)(test)
        started = time.perf_counter()
        try:
            test()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed += 1
            print(f"{name}: FOUND {type(error).__name__}", *getattr(error, "__notes__", ()), sep="\n", flush=True)
            continue
        print(f"{name}: {examples} examples, {time.perf_counter() - started:.1f} s, nothing found", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
