"""What is moved: systems of equations, and many bodies."""
