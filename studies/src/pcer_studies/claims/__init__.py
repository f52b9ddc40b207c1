"""What does the paper claim, and does it hold?

The walk: ``views`` (what can be asked of the paper's figures, ``paper_view``, and of
our run, ``our_run``), ``quantities`` (the numbers that claims are about), ``rules``
(numbers into answers), ``judgement`` (answers into judgements). The claims themselves
stand in ``whole``, ``adult``, ``compas``, ``acs``, ``bios``, ``floors`` and ``attack``.
Two pages come of them: ``ledger`` writes ``claims.md``, ``findings`` ``findings.md``.
"""
