"""What ``pcer reproduce`` writes: published beside ours, the tables, Figure 1 and the README."""
