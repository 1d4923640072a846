"""Measuring: protocol, inputs, check against float64, timer, device lock, provenance, records, jobs.

Importing this package needs torch and nothing more; jsonschema and nvidia-ml-py are imported where they are used.
"""
