"""
One builder for each operation: what a call sends, and what its reply means.

The modules ``messages``, ``batches``, ``queues``, ``dead_letters``, ``inspection``, ``recovery``
and ``sending`` have the operations of the clients; ``worker``, ``spark``, ``migration``,
``doctor``, ``restored`` and ``reading`` those of the packages above. Builders check arguments in
Node's order and raise before anything is sent. They do no I/O and read no clock; the package
``transport`` runs what they return.
"""
