"""Mutated releases, plans, pages and tables: nothing may end but in an answer or one sentence."""
