"""Tests of ksmm; imported before all else here."""

import os

# Threads that wait do not spin, since several processes share the processors; OpenMP asks when PyTorch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
