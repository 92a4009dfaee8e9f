"""Where along the levels is knowledge lost, and what happens inside one level?"""
