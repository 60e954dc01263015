"""What a run hands back."""
