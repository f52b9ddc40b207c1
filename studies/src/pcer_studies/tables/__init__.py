"""What ``pcer reproduce`` writes: tables, cells beside ours, Figure 1, the README."""
