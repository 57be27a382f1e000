"""
One builder for each operation: the call that is sent, and the parser of its reply.

They are those of the clients, and those that several features need: ``restore``, ``reading`` and
``plain``. The operations of one feature are in its folder, as ``rsmq.worker.operations``.
Builders check arguments in the order of the Node client, and raise before anything is sent. They do
no I/O and read no clock; the package ``transport`` runs the operations that they return.
"""
