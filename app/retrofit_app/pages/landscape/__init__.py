"""What is between a run's networks, and around them?"""
