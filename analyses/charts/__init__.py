"""Pictures that the scripts and the pages of the dashboard share."""
