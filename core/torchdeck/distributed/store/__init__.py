"""The store by which torchrun's processes and the ranks find each other, closed to everyone else.

torch's TCPStore asks no one who they are. Here it listens where the kernel drops what others send
(`private_listener.py`), and is reached through a front (`static_rendezvous.py`): by processes of this
user on this machine, and from other nodes by those that prove to be of the run (`proof.py`).
"""
