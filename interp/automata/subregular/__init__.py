"""Decision procedures for subregular classes, on tables of transitions and their monoids."""
