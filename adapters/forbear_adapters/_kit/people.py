"""Ask a person through a paused graph, and hand the answers to the operator's side of the controller."""
