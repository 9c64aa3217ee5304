"""What the ranks print: followed, searched, any length."""
