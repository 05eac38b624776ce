"""What kind of wrong is it? One small detector a pattern, each with a confidence and its evidence."""
