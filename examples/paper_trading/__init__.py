"""The paper-trading desk: one MCP server, a set of stubborn models, and what they do bare and under forbear."""
