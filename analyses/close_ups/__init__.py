"""What a page asks of one head, one probe, one circuit or one word, while a reader waits."""
