"""
The Lua scripts: one ``.lua`` file for each atomic operation, and the loader.

The header of each file documents its keys, arguments, result and errors. A line
``-- @include NAME.lua`` is replaced by the text of ``fragments/NAME.lua``. A fragment defines local
functions, and includes the fragments that it uses; the loader puts each before its first use, and
once. A fragment may be included inside a block: each call that executes a function's definition
takes time for it. Numbers are passed to commands as text, which Redis accepts without conversion.

The scripts of a feature are in its folder ``scripts``, with the fragments that only it uses.
"""
