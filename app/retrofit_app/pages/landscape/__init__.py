"""What lies between the networks of a run, and around them?"""
