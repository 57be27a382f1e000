"""A check that modules of rsmq do not import each other in a circle, even for types only."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter

import grimp

graph = grimp.build_graph("rsmq", cache_dir=None)
imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
try:
    TopologicalSorter(imports).prepare()
except CycleError as error:
    sys.exit("A circle of imports: " + " <- ".join(error.args[1]))
