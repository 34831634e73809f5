"""The run-time type checker of the tests: an int is a float, as type checkers have it (PEP 484)."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
