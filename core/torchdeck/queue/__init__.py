"""The queue of one home: entries that wait for devices, the file that keeps them, and their scheduler."""
