"""Pictures that scripts and pages share."""
