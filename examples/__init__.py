"""Programs that show forbear at work, run as `python -m examples.NAME`. No code that another package imports lives here."""
