"""`python -m saccade.cli`."""

from saccade.cli import main

raise SystemExit(main())
