"""Smaller sets of elements on which an oracle still says yes; pure, as states that say what to ask next."""
