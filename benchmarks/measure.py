"""What every benchmark here needs: a median time, extra peak memory in a process of its own, a table, the machine."""

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

import torch


def median_seconds(step: Callable[[], object], *, repeats: int = 7) -> float:
    """Median wall time of `step` after one warm-up call."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def processor_seconds(steps: Mapping[str, Callable[[], object]], *, rounds: int = 7) -> dict[str, float]:
    """The processor's seconds of each step, the least of several rounds in which all have their turn.

    On one thread that is the time on a quiet machine, also while others use this one.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.process_time()
            step()
            times[name].append(time.process_time() - start)
    return {name: min(each) for name, each in times.items()}


def extra_peak_mb(step: Callable[[], object]) -> float:
    """Resident memory that `step` needs at its peak beyond what the process held before, on Linux."""
    before = _status_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step()
    return (_status_kb("VmHWM") - before) / 1024


def extra_peak_mb_elsewhere(script: str, case: str) -> float:
    """`extra_peak_mb` of a case in a fresh process, so that no cache or earlier case is counted."""
    command = [sys.executable, script, "--memory", case]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def memory_case() -> str | None:
    """The case this process was started for by `extra_peak_mb_elsewhere`."""
    return sys.argv[2] if sys.argv[1:2] == ["--memory"] else None


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table under a title with the date and the machine."""
    processor = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    print(f"\n{title}\n{date.today()}, {processor}, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def comparison_rows(
    seconds: dict[str, float], memory_mb: dict[str, float], *, unit: float, time_digits: int, ratio_digits: int
) -> list[list[str]]:
    """Method, time in 1/`unit` s, speed-up, extra MB and share of memory, each against the first method."""
    base = next(iter(seconds))
    return [
        [
            method,
            f"{unit * seconds[method]:.{time_digits}f}",
            f"{seconds[base] / seconds[method]:.{ratio_digits}f}×",
            f"{memory_mb[method]:.0f}",
            f"1/{memory_mb[base] / max(memory_mb[method], 0.1):.{ratio_digits}f}",
        ]
        for method in seconds
    ]


def _status_kb(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])
