"""What the paper claims: every claim judged (``ledger``), and the study (``findings``)."""
