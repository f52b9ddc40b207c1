"""How is an audit written? One file for each format.

``views`` says what is shown; the files here write it, and escape names as their format
needs. To add a format: a file here, and a row of ``renderers`` in ``pcer.cli.audit``
that calls it.
"""
