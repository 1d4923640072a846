"""Every figure's and table's script, as a module by its name."""

import importlib
from types import ModuleType

import plan

SCRIPTS = {name: importlib.import_module(name) for name in plan.names()}


def scripts_of(study: str) -> dict[str, ModuleType]:
    """Those that draw the table of that study."""
    return {name: module for name, module in SCRIPTS.items() if plan.study_of(module) == study}
