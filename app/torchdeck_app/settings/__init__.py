"""What the user can set, and files that are kept from one start to the next."""
