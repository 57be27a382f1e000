"""
The type variables of codecs, messages, clients and jobs.

Their defaults (PEP 696) exist for type checkers only, which bring typing_extensions themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The bodies that a codec encodes.
    In_contra = TypeVar("In_contra", contravariant=True, default=Any)
    #: The bodies that a codec decodes; ``Codec[Order]`` encodes and decodes an Order.
    Out_co = TypeVar("Out_co", covariant=True, default=In_contra)
    #: The body of a message, as the client's codec decodes it.
    B_co = TypeVar("B_co", covariant=True, default=Any)
    #: The result of a tracked message.
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    In_contra = TypeVar("In_contra", contravariant=True)
    Out_co = TypeVar("Out_co", covariant=True)
    B_co = TypeVar("B_co", covariant=True)
    R_co = TypeVar("R_co", covariant=True)

#: The body of a message, as the codec of a call decodes it.
D = TypeVar("D")
#: The argument of a task.
A_contra = TypeVar("A_contra", contravariant=True)
#: The bodies that the codec of a call encodes. Methods that read don't use it. With Any in its
#: place, type checkers infer Any for ``codec=dataclass_codec(Order)``.
E = TypeVar("E")
