"""`torchdeck mcp`: the runs of this home for programs that speak the Model Context Protocol."""
