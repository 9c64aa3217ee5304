"""Which node reaches which, how quickly and how well."""
