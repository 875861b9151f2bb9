"""What a governed call costs, measured side by side with what people use today (`make bench`)."""
