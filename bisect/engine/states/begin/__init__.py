"""What comes before the ends of a range are measured: the good end is looked for, the range is opened."""
