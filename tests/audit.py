"""Known-vulnerable dependencies: asks PyPI about every line of constraints.txt, by pip-audit. `make audit`.

Exit codes: 0 none is known, 1 there is one, 2 the service could not be asked about all of them: that is no answer, and
pip-audit by itself would call it "No known vulnerabilities found".
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# Without pip: the pinned versions are all there is to know.
WORDS = ("--no-deps", "--disable-pip", "--progress-spinner=off", "--timeout=15", "--format=json")


def audit(answer: str, reason: str) -> tuple[int, str]:
    """The exit code and what to say, of pip-audit's JSON; `reason` is what it wrote beside that."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError):
        last = (reason.strip().splitlines() or ["no reason given"])[-1]
        return 2, f"audit: the vulnerability service could not be asked ({last}): try again with access to pypi.org"
    found = [f"{each['name']} {each['version']}: {bad['id']}" for each in packages for bad in each.get("vulns", ())]
    unasked = [each["name"] for each in packages if "skip_reason" in each]
    lines = [f"audit: vulnerable: {line}" for line in found]
    if unasked:
        lines.append(
            f"audit: the vulnerability service could not be asked about {len(unasked)} of {len(packages)} packages "
            f"({', '.join(unasked[:3])}, …): try again with access to pypi.org"
        )
    if not lines:
        lines = [f"audit: none of {len(packages)} packages has a known vulnerability"]
    return (1 if found else 2 if unasked else 0), "\n".join(lines)


def main() -> int:
    """Ask, and tell."""
    words = [sys.executable, "-m", "pip_audit", f"--requirement={CONSTRAINTS}", *WORDS]
    done = subprocess.run(words, capture_output=True, text=True)
    code, text = audit(done.stdout, done.stderr)
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
