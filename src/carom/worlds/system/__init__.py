"""A System: equations that the user writes."""
