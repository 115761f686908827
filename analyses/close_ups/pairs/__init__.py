"""One pair, or many: is the target right, and where does it come from?"""
