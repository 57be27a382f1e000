"""
One builder for each operation: the call that is sent, and the parser of its reply.

The modules ``messages``, ``batches``, ``queues``, ``dead_letters``, ``inspection``, ``recovery``
and ``sending`` contain the operations of the clients; ``worker``, ``spark``, ``migration``,
``doctor``, ``restore`` and ``reading`` those of the packages that are built on the clients.
Builders check arguments in the order of the Node client, and raise before anything is sent. They do
no I/O and read no clock; the package ``transport`` runs the operations that they return.
"""
