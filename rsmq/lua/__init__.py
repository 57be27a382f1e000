"""
The atomic steps: one ``.lua`` file for each operation, and the loader.

A file states its contract above its code. A line ``-- @include NAME.lua`` stands for the text of
``fragments/NAME.lua``, which defines local functions and includes nothing. A fragment may be
included inside a block: a function costs time in each call that passes its definition. Numbers
are sent to commands as text, which Redis accepts as it is.
"""
