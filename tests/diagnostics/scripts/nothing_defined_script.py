"""A text that defines nothing."""

import tilesmith as ts

ts.script.from_source("x = 1")
