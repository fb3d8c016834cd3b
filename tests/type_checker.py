"""What types are checked with: an int is a float, as for type checkers."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
