"""Measuring: protocol, inputs, check against float64, timer, energy meter, device lock, provenance, records, jobs.

Importing this package needs torch and nothing more; jsonschema, nvidia-ml-py and pyJoules are imported where they are
used.
"""
