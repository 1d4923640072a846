"""Whole networks: what Kronecker-sparse layers are worth in them (Section 6, Tables 4, 6 and 7 of the paper)."""
