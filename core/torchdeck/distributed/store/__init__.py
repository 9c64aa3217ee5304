"""Store through which torchrun's processes and the ranks find each other, closed to all others.

torch's TCPStore has no authentication. Here it listens where the kernel drops packets of others
(`private_listener.py`), and is reached through a front (`access.py`): by processes of this user on
this machine, and from other nodes by those that prove that they belong to the run (`proof.py`).
"""
